from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.transactions import messages
from orbitmq.errors import Rejected
from orbitmq.model.topic import HALF_TOPIC
from orbitmq.store import Draft
from orbitmq.wire.messages.properties import format_properties, parse_properties
from orbitmq.wire.messages.record import Record, format_record, parse_record

SENT = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "K1", "TAGS": "a"}


def stored(draft: Draft, queue_offset: int = 5, physical_offset: int = 1000) -> Record:
    encoded = format_record(
        topic=draft.topic, body=draft.body, properties=draft.properties, queue_id=draft.queue_id, flag=draft.flag,
        queue_offset=queue_offset, physical_offset=physical_offset, sys_flag=draft.sys_flag, born_at_ms=draft.born_at_ms,
        reconsume_times=draft.reconsume_times,
    )  # fmt: skip
    record = parse_record(encoded)
    assert isinstance(record, Record)
    return record


def half(**properties: str) -> Record:
    return stored(
        messages.half_message(Draft("t", 2, b"x", flag=7, sys_flag=0x104, born_at_ms=9), {**SENT, **properties})
    )


def test_a_half_message_waits_in_the_half_topic_with_its_own_place_among_its_properties() -> None:
    found = half()
    assert (found.topic, found.queue_id, found.sys_flag, found.flag, found.born_at_ms) == (HALF_TOPIC, 0, 0x100, 7, 9)
    place = {"REAL_TOPIC": "t", "REAL_QID": "2", "__transactionId__": "K1"}
    assert parse_properties(found.properties) == SENT | place
    assert messages.place_of(found) == ("t", 2)
    assert messages.group_of(found) == "p"


def test_a_half_message_without_a_unique_key_has_no_transaction_id() -> None:
    draft = messages.half_message(Draft("t", 2, b"x"), {"TRAN_MSG": "true", "PGROUP": "p"})
    assert "__transactionId__" not in parse_properties(draft.properties)


@each_case("DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
def test_a_half_message_cannot_be_delayed(name: str) -> None:
    with pytest.raises(Rejected, match=f"cannot be delayed, it has {name}") as refused:
        messages.half_message(Draft("t", 2, b"x"), {**SENT, name: "3"})
    assert refused.value.code == 13
    assert messages.half_message(Draft("t", 2, b"x"), {**SENT, name: "0"}).topic == HALF_TOPIC


@each_case("", None)
def test_a_half_message_of_no_producer_group_is_refused(group: str | None) -> None:
    properties = {name: value for name, value in SENT.items() if name != "PGROUP"}
    with pytest.raises(Rejected, match="PGROUP"):
        messages.half_message(Draft("t", 2, b"x"), properties if group is None else {**properties, "PGROUP": group})


@each_case(("true", True), ("TRUE", True), ("false", False), ("1", False))
def test_tran_msg_is_read_as_java_reads_it(text: str, is_half: bool) -> None:
    assert messages.is_prepared({"TRAN_MSG": text}) is is_half
    assert not messages.is_prepared({})


def test_a_committed_message_has_the_bytes_of_its_halfs_properties_and_names_its_place() -> None:
    found = half()
    final = messages.final_form(found, messages.CommitTarget("t", 2))
    assert final == Draft("t", 2, b"x", found.properties, 7, 0x108, 9, found.born_host, 0, 1000)


def test_a_committed_message_that_was_renewed_says_nothing_of_it_that_java_would_not() -> None:
    again = stored(messages.renewed_form(half(), {"TRANSACTION_CHECK_TIMES": "1"}), 6, 2000)
    properties = parse_properties(messages.final_form(again, messages.CommitTarget("t", 2)).properties)
    assert properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert messages.RENEWED_FROM not in properties


def test_a_renewed_message_names_the_place_that_it_had() -> None:
    first = half()
    again = stored(messages.renewed_form(first, {"TRANSACTION_CHECK_TIMES": "1"}), 6, 2000)
    assert (again.topic, again.queue_id, again.flag, again.sys_flag, again.body) == (HALF_TOPIC, 0, 7, 0x100, b"x")
    assert parse_properties(again.properties) == {
        **parse_properties(first.properties),
        "TRANSACTION_CHECK_TIMES": "1",
        "TRAN_RENEWED_FROM": "5",
    }
    third = messages.renewed_form(again, {})
    assert parse_properties(third.properties)["TRAN_RENEWED_FROM"] == "6"


def test_a_sender_cannot_say_that_its_message_was_renewed() -> None:
    assert messages.RENEWED_FROM not in parse_properties(half(TRAN_RENEWED_FROM="3").properties)


def test_a_record_stored_again_leaves_its_checksum_behind() -> None:
    draft = messages.half_message(Draft("t", 2, b"x"), SENT)
    found = stored(draft._replace(properties=draft.properties + b"__CRC32#\x010123456789\x02"))
    for again in (
        messages.final_form(found, messages.CommitTarget("t", 2)),
        messages.renewed_form(found, {}),
        messages.given_up_form(found),
        messages.resumed_form(found),
    ):
        assert b"__CRC32#" not in again.properties


def test_a_message_that_is_given_up_and_resumed_forgets_that_it_was_asked_about() -> None:
    again = stored(messages.renewed_form(half(), {"TRANSACTION_CHECK_TIMES": "3"}))
    given_up = stored(messages.given_up_form(again))
    assert (given_up.topic, given_up.queue_id) == ("TRANS_CHECK_MAX_TIME_TOPIC", 0)
    resumed = stored(messages.resumed_form(given_up))
    assert resumed.topic == HALF_TOPIC
    assert parse_properties(resumed.properties) == parse_properties(half().properties) | {
        "TRANSACTION_CHECK_TIMES": "0"
    }


@each_case(
    {},
    {"REAL_TOPIC": "t"},
    {"REAL_QID": "1"},
    {"REAL_TOPIC": "t", "REAL_QID": "-1"},
    {"REAL_TOPIC": "t", "REAL_QID": "1234567890"},
    {"REAL_TOPIC": "no name", "REAL_QID": "1"},
)
def test_a_half_message_may_have_no_place_to_go(properties: dict[str, str]) -> None:
    assert messages.place_of(stored(Draft(HALF_TOPIC, 0, b"x", format_properties(properties)))) is None


def test_an_op_message_is_javas() -> None:
    draft = messages.op_form(b"1,2,", 77)
    assert draft == Draft("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, b"1,2,", b"TAGS\x01d\x02", born_at_ms=77)
