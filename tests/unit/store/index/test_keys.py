"""The keys of messages, read from the log's bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord
from orbitmq.model.message import Host
from orbitmq.store.index.hashes import topic_hash
from orbitmq.store.index.keys import KeyReader
from orbitmq.wire.messages.properties import format_properties, parse_properties
from orbitmq.wire.messages.record import MAGIC_BLANK, PREFIX, format_record

V4, V6 = Host("127.0.0.1", 1), Host("::1", 2)
PLACE = 4096


def record(
    properties: bytes, place: int, *, topic: str = "orders", body: bytes = b"UNIQ_KEY\x01no\x02KEYS\x01no\x02",
    sys_flag: int = 0, born: Host = V4, store: Host = V4, stored_at_ms: int = 7,
) -> bytes:  # fmt: skip
    return format_record(
        topic=topic, queue_id=0, flag=0, queue_offset=0, physical_offset=place, sys_flag=sys_flag, born_at_ms=1,
        born_host=born, stored_at_ms=stored_at_ms, store_host=store, reconsume_times=0,
        prepared_transaction_offset=0, body=body, properties=properties,
    )  # fmt: skip


def keys_in(data: bytes, place: int = PLACE) -> list[bytes]:
    reader = KeyReader()
    assert reader.read(data, place, 1000) == len(data)
    assert len(reader.keys) == len(reader.starts) == len(reader.offsets) == len(reader.times_ms)
    return reader.keys


@pytest.mark.parametrize(
    ("properties", "keys"),
    [
        (b"", []),
        (b"UNIQ_KEY\x01ONE\x02", [b"ONE"]),
        (b"UNIQ_KEY\x01ONE", [b"ONE"]),
        (b"WAIT\x01true\x02UNIQ_KEY\x01ONE\x02TAGS\x01t", [b"ONE"]),
        (b"KEYS\x01k1\x02UNIQ_KEY\x01ONE\x02", [b"ONE", b"k1"]),
        (b"KEYS\x01k1 k2  k1 \x02UNIQ_KEY\x01ONE\x02", [b"ONE", b"k1", b"k2", b"k1"]),
        (b"KEYS\x01k1\x02", [b"k1"]),
        (b"KEYS\x01k1\x02\x02", [b"k1"]),
        (b"KEYS\x01k1\x02KEYS\x01\x02UNIQ_KEY\x01ONE\x02", [b"ONE", b"k1"]),
        (b"KEYS\x01 \x02", []),
        (b"KEYS\x01\x02UNIQ_KEY\x01\x02", []),
        (b"MY_UNIQ_KEY\x01ONE\x02THE_KEYS\x01k\x02", []),
        (b"UNIQ_KEY\x01ONE\x02MY_UNIQ_KEY\x01TWO\x02", [b"ONE"]),
        (b"UNIQ_KEY\x01ONE\x02UNIQ_KEY\x01TWO\x02", [b"TWO"]),
        (b"TAGS\x01UNIQ_KEY\x02UNIQ_KEY\x01ONE\x02", [b"ONE"]),
    ],
)
def test_a_message_has_the_keys_that_java_finds(properties: bytes, keys: list[bytes]) -> None:
    assert keys_in(record(properties, PLACE)) == keys


@pytest.mark.parametrize(("sys_flag", "count"), [(0, 1), (0x4, 1), (0x8, 1), (0xC, 0)])
def test_rolled_back_transactions_have_none(sys_flag: int, count: int) -> None:
    assert len(keys_in(record(b"UNIQ_KEY\x01ONE\x02", PLACE, sys_flag=sys_flag))) == count


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize("topic", ["t", "t" * 127, "t" * 128, "ü" * 100])
def test_every_form_of_a_record_is_read(born: Host, store: Host, topic: str) -> None:
    one = record(b"UNIQ_KEY\x01ONE\x02", PLACE, born=born, store=store, topic=topic, stored_at_ms=70)
    two = record(b"", PLACE + len(one), born=born, store=store, topic=topic, stored_at_ms=80)
    reader = KeyReader()
    assert reader.read(one + two, PLACE, 1000) == len(one + two)
    assert (reader.keys, reader.starts) == ([b"ONE"], [topic_hash(topic)])
    assert (reader.offsets, reader.times_ms) == ([PLACE], [70])


def test_a_record_that_is_not_whole_waits() -> None:
    one, two = record(b"UNIQ_KEY\x01ONE\x02", 0), record(b"UNIQ_KEY\x01TWO\x02", len(record(b"UNIQ_KEY\x01ONE\x02", 0)))
    for size in range(len(one), len(one + two)):
        reader = KeyReader()
        assert reader.read((one + two)[:size], 0, 1000) == len(one)
        assert reader.keys == [b"ONE"]


def test_a_filler_is_passed_over_also_where_it_ends_behind_the_slice() -> None:
    assert KeyReader().read(PREFIX.pack(5000, MAGIC_BLANK).ljust(200, b"\0"), 0, 1000) == 5000


@pytest.mark.parametrize("words", [b"", b"a", b"a b", b" a  b "])
def test_noted_keys_are_those_that_would_be_read(words: bytes) -> None:
    one = record(b"UNIQ_KEY\x01ONE\x02", PLACE, stored_at_ms=70)
    two = record(b"KEYS\x01" + words + b"\x02UNIQ_KEY\x01TWO\x02", PLACE + len(one), topic="t", stored_at_ms=80)
    noted = [(PLACE, len(one), 70, "orders", b"ONE", b""), (PLACE + len(one), len(two), 80, "t", b"TWO", words)]
    read, taken = KeyReader(), KeyReader()
    end = PLACE + read.read(one + two, PLACE, 1000)
    assert taken.take_noted(noted, PLACE, end) == (2, len(one + two))
    assert (taken.keys, taken.starts) == (read.keys, read.starts)
    assert (taken.offsets, taken.times_ms) == (read.offsets, read.times_ms)


def test_noted_keys_are_taken_up_to_a_gap_or_the_readable_end() -> None:
    noted = [(0, 100, 7, "t", b"A", b""), (100, 100, 7, "t", b"B", b"")]
    reader = KeyReader()
    assert reader.take_noted(noted, 0, 200) == (2, 200)
    for behind, end in ((noted[1], 199), ((101, 100, 7, "t", b"B", b""), 500)):
        reader.clear()
        assert reader.take_noted([noted[0], behind], 0, end) == (1, 100)
        assert (reader.keys, reader.offsets) == ([b"A"], [0])
    reader.clear()
    assert reader.take_noted(noted, 0, 99) == reader.take_noted(noted, 1, 500) == (0, 0)
    assert not reader.keys


def test_about_so_many_keys_are_collected() -> None:
    one = record(b"KEYS\x01a b c\x02", 0)
    two = record(b"KEYS\x01a b c\x02", len(one))
    reader = KeyReader()
    assert reader.read(one + two, 0, 2) == len(one)


@given(st.data())
def test_damage_is_told_by_its_place_and_nothing_else_happens(data: st.DataObject) -> None:
    one = record(b"UNIQ_KEY\x01ONE\x02", 0)
    two = bytearray(record(b"UNIQ_KEY\x01TWO\x02KEYS\x01k\x02", len(one), born=data.draw(st.sampled_from([V4, V6]))))
    for at in data.draw(st.lists(st.integers(0, len(two) - 1), min_size=1, max_size=8)):
        two[at] = data.draw(st.integers(0, 255))
    reader, place = KeyReader(), -1
    try:
        place = reader.read(one + bytes(two), 0, 1000)
    except CorruptRecord as damage:
        place = damage.physical_offset
    assert place >= len(one)
    assert reader.keys[0] == b"ONE"


NAMES = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "XUNIQ_KEY", "KEYSX", "a"])
VALUES = st.text(alphabet=" kKEYSU_ü", max_size=12)


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=10))
def test_random_messages_have_the_keys_of_their_parsed_properties(messages: list[dict[str, str]]) -> None:
    data, expected = b"", []
    for properties in messages:
        encoded = format_properties(properties)
        data += record(encoded, PLACE + len(data))
        known = parse_properties(encoded)
        found = [known["UNIQ_KEY"]] if "UNIQ_KEY" in known else []
        expected += found + [key for key in known.get("KEYS", "").split(" ") if key]
    assert keys_in(data) == [key.encode() for key in expected]
