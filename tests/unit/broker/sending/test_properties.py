from __future__ import annotations

from collections.abc import Callable

import pytest

from cases import each_case
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.errors import HeaderError, Rejected

ADDED = b"MSG_REGION\x01r\x02TRACE_ON\x01true\x02CLUSTER\x01c\x02"
STORED = StoredProperties("c", region_id="r", trace_on=True)


@each_case(
    (b"", ADDED),
    (b"A\x01b", b"A\x01b\x02" + ADDED),
    (b"A\x01b\x02", b"A\x01b\x02" + ADDED),
    (b"WAIT\x01true\x02", b"WAIT\x01true\x02" + ADDED),
    (b"MSG_REGION\x01elsewhere\x02", b"MSG_REGION\x01elsewhere\x02" + ADDED),
)
def test_plain_properties_gain_the_cluster_and_what_traces_need(sent: bytes, kept: bytes) -> None:
    assert STORED.plain(sent) == kept


@each_case(
    b"DELAY\x013\x02",
    b"A\x01b\x02TIMER_DELAY_SEC\x013\x02",
    b"TIMER_DELIVER_MS\x013\x02",
    b"TRAN_MSG\x01true\x02",
    b"CLUSTER\x01other\x02",
    b"TRACE_ON\x01false\x02",
    b"__CRC32#\x010123456789\x02",
    b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02",
    b"INNER_MULTI_QUEUE_OFFSET\x010\x02",
    b"POP_CK\x010 5 60000 3 1 a 0 7\x02",
    b"A\x01\xff\x02",
)
def test_properties_that_ask_for_something_are_not_plain(properties: bytes) -> None:
    assert STORED.plain(properties) is None


AS_TEXT = {"MSG_REGION": "r", "TRACE_ON": "true", "CLUSTER": "c"}


def test_parsed_properties_name_this_cluster_and_this_region() -> None:
    sent = b"CLUSTER\x01x\x02MSG_REGION\x01x\x02TRACE_ON\x01false\x02A\x01b\x02"
    assert list(STORED.parse(sent).items()) == [("A", "b"), *AS_TEXT.items()]
    assert STORED.parse(b"TRAN_MSG\x01false\x02") == {**AS_TEXT, "TRAN_MSG": "false"}


@each_case(b"__CRC32#\x010123456789\x02", b"POP_CK\x010 5 60000 3 1 a 0 7\x02")
def test_the_records_own_checksum_and_handle_are_no_senders_to_give(own: bytes) -> None:
    sent = b"A\x01b\x02" + own
    assert STORED.parse(sent) == {**AS_TEXT, "A": "b"}
    assert STORED.of_batch_message(sent, {}) == b"A\x01b\x02" + ADDED
    assert STORED.shared_by_batch(sent) == {"A": "b"}


def test_a_message_of_a_batch_whose_properties_are_no_text_is_refused() -> None:
    with pytest.raises(HeaderError, match="properties"):
        STORED.of_batch_message(b"A\x01\xff\x02", {})
    assert STORED.of_batch_message("A\x01ä\x02".encode(), {}) == "A\x01ä\x02".encode() + ADDED


@each_case("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
def test_timers_are_refused_in_batches(name: str) -> None:
    asking = f"{name}\x013\x02".encode()
    assert STORED.parse(asking)[name] == "3"
    with pytest.raises(Rejected, match="a batch cannot be delayed") as caught:
        STORED.shared_by_batch(asking)
    assert caught.value.code == 13
    with pytest.raises(Rejected, match="a message of a batch cannot be delayed") as caught:
        STORED.of_batch_message(asking, {})
    assert caught.value.code == 13


@each_case("true", "TRUE")
def test_a_batch_is_no_part_of_a_transaction(value: str) -> None:
    encoded = f"TRAN_MSG\x01{value}\x02".encode()
    with pytest.raises(Rejected, match="a batch cannot be a part of a transaction") as caught:
        STORED.shared_by_batch(encoded)
    assert caught.value.code == 13
    with pytest.raises(Rejected, match="a message of a batch cannot be a part of a transaction") as caught:
        STORED.of_batch_message(encoded, {})
    assert caught.value.code == 13


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(HeaderError, match="properties"):
        STORED.parse(b"A\x01\xff\x02")


def test_a_batch_shares_what_its_messages_may_have_in_common() -> None:
    encoded = b"UNIQ_KEY\x01K\x02WAIT\x01true\x02TAGS\x01t\x02KEYS\x01k\x02OWN\x01o\x02"
    assert STORED.shared_by_batch(encoded) == {"OWN": "o"}


@each_case(STORED.shared_by_batch, lambda encoded: STORED.of_batch_message(encoded, {}))
def test_nothing_of_a_batch_can_be_delayed(read: Callable[[bytes], object]) -> None:
    with pytest.raises(Rejected, match="delayed") as caught:
        read(b"DELAY\x013\x02")
    assert caught.value.code == 13


def test_a_message_of_a_batch_keeps_its_own_before_what_is_shared() -> None:
    own = STORED.of_batch_message(b"A\x01own\x02", {"A": "shared", "B": "shared"})
    assert sorted(own.split(b"\x02")) == sorted((b"A\x01own\x02B\x01shared\x02" + ADDED).split(b"\x02"))
    assert STORED.of_batch_message(b"A\x01own\x02", {}) == b"A\x01own\x02" + ADDED
    with pytest.raises(Rejected) as caught:
        STORED.of_batch_message(b"A\x01own\x02", {"B": "x\x02"})
    assert caught.value.code == 13


def test_numbers_in_lmqs_are_no_senders_to_give() -> None:
    sent = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x015\x02"
    assert STORED.parse(sent) == {**AS_TEXT, "INNER_MULTI_DISPATCH": "%LMQ%a"}
    assert STORED.of_batch_message(sent, {}) == b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02" + ADDED


def test_messages_of_a_batch_name_no_lmqs_where_there_are_some() -> None:
    stored = StoredProperties("c", region_id="r", trace_on=True, has_lmq=True)
    for refuses in (stored.shared_by_batch, lambda sent: stored.of_batch_message(sent, {})):
        with pytest.raises(Rejected, match="batch cannot name light message queues"):
            refuses(b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02")
