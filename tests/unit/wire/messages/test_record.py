"""The message record: layout, checks, conversions."""

from itertools import product
from struct import calcsize, pack_into
from zlib import crc32

import pytest

from cases import each_case
from orbitmq.errors import CorruptRecord, InvalidArgument
from orbitmq.model.message import Host, SysFlag
from orbitmq.wire.messages.record import (
    BODY_AT,
    BORN_HOST_AT,
    CRC_PROPERTY_SIZE,
    HEAD_FIELDS,
    HEADS,
    HOST_SIZE_V4,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    STORE_HOST_AT,
    STORED_AT_AT,
    STORED_FIELDS,
    TAIL_AT,
    TAIL_FIELDS,
    Blank,
    Record,
    crc_property,
    format_host,
    format_record,
    format_topic,
    iter_records,
    parse_record,
    properties_at,
    properties_in,
    queue_offset_in,
    queue_offsets_in,
)
from unit.wire.messages.parts import FIELDS, V4, V6, parsed_record, record


def changed(encoded, at, layout, value):
    copy = bytearray(encoded)
    pack_into(layout, copy, at, value)
    return bytes(copy)


def test_the_layout_is_the_documented_one():
    assert (
        record()
        == bytes.fromhex(
            "00000078 daa320a7 3610a686 00000003 fffffff9 000000000000000b 0000000200000000 00000002"
            "0000018bcfe56800 0a000001000004d2 0000018bcfe56801 0a00000200002a9f 00000002 0000000000000005"
            "00000005 68656c6c6f 06 6f7264657273 0012"
        )
        + FIELDS["properties"]
    )


def test_positions_follow_from_the_fields_before_them():
    def size(fields, until=None):
        names = [name for name, _ in fields]
        return calcsize(">" + "".join(code for _, code in fields[: None if until is None else names.index(until)]))

    assert size(HEAD_FIELDS, "queue_offset") == QUEUE_OFFSET_AT
    assert size(HEAD_FIELDS, "physical_offset") == PHYSICAL_OFFSET_AT
    assert size(HEAD_FIELDS) == BORN_HOST_AT
    assert BORN_HOST_AT + HOST_SIZE_V4 == STORED_AT_AT
    assert STORED_AT_AT + size(STORED_FIELDS) == STORE_HOST_AT
    assert STORE_HOST_AT + HOST_SIZE_V4 == TAIL_AT
    assert TAIL_AT + size(TAIL_FIELDS) == BODY_AT == HEADS[0].size
    assert len(format_record(topic="", body=b"")) == RECORD_SIZE_MIN


def test_every_field_survives():
    parsed = parse_record(record(), 2**33)
    for name, value in FIELDS.items():
        assert getattr(parsed, name) == value
    assert parsed.size == len(record())
    assert parsed.body_crc == crc32(b"hello") & 0x7FFFFFFF


@each_case((V4, V6), (V6, V4), (V6, V6))
def test_ipv6_hosts_survive_and_are_flagged(born, store):
    parsed = parse_record(record(born_host=born, store_host=store))
    assert (parsed.born_host, parsed.store_host) == (born, store)
    assert bool(parsed.sys_flag & SysFlag.BORN_HOST_V6) == (born is V6)
    assert bool(parsed.sys_flag & SysFlag.STORE_HOST_V6) == (store is V6)


def test_host_flags_follow_the_hosts_and_nothing_else():
    assert parse_record(record(sys_flag=SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)).sys_flag == 0


def test_a_topic_longer_than_127_bytes_makes_a_v2_record():
    short, long = record(topic="t" * 127), record(topic="t" * 128)
    assert short[4:8].hex() == "daa320a7"
    assert long[4:8].hex() == "daa320ab"
    assert parse_record(short).topic == "t" * 127
    assert parse_record(long).topic == "t" * 128


def test_slices_of_a_memoryview_are_not_copied():
    assert isinstance(parse_record(memoryview(record())).body, memoryview)


def test_a_records_end_is_not_the_views_end():
    assert parse_record(record() + b"anything").size == len(record())


def test_filler_is_blank():
    assert parse_record(bytes.fromhex("00000010 cbd43194 0000000000000000")) == Blank(16)


@each_case(7, 17, 2**32 - 1)
def test_filler_must_fit(size):
    with pytest.raises(CorruptRecord, match="filler"):
        parse_record(size.to_bytes(4, "big") + bytes.fromhex("cbd43194 0000000000000000"))


@each_case(False, True)
def test_upstream_7437_every_cut_is_refused(with_crc):
    encoded = record(with_crc=with_crc)
    for size in range(len(encoded)):
        with pytest.raises(CorruptRecord):
            parse_record(encoded[:size], 2**33)
        with pytest.raises(CorruptRecord):
            parse_record(encoded[:size] + bytes(len(encoded) - size), 2**33)  # what is not on the disk reads as zeros


def test_upstream_7437_a_sector_lost_from_the_middle_of_the_properties_is_noticed():
    encoded = bytearray(record(properties=b"a\x01" + b"x" * 2000 + b"\x02"))
    assert parse_record(bytes(encoded))
    encoded[512:1024] = bytes(512)
    with pytest.raises(CorruptRecord, match="not written to their end"):
        parse_record(bytes(encoded))


def test_upstream_9121_a_checksum_of_zero_is_a_checksum():
    body = bytes.fromhex("9d0ad96d")  # its CRC-32 is 0
    assert crc32(body) & 0x7FFFFFFF == 0
    assert parse_record(record(body=body)).body == body
    assert parse_record(record(body=b"")).body_crc == 0
    with pytest.raises(CorruptRecord, match="checksum"):
        parse_record(changed(record(), 8, ">I", 0))


def test_upstream_10017_a_record_that_lay_elsewhere_is_refused():
    with pytest.raises(CorruptRecord, match="says that it lies at 8589934592") as caught:
        parse_record(record(), 2**33 + 1)
    assert caught.value.physical_offset == 2**33 + 1


@each_case(
    (4, ">I", 0, "magic"),
    (0, ">I", 0, "size 0"),
    (0, ">I", 91, "body of"),
    (0, ">I", 2**32 - 1, "size"),
    (0, ">I", 119, "properties do not end"),
    (84, ">i", -1, "body of -1"),
    (84, ">i", 2**31 - 1, "body of"),
    (93, ">B", 255, "topic of 255"),
    (93, ">B", 24, "properties do not end"),
    (100, ">H", 17, "properties do not end"),
    (94, ">B", 255, "topic is not UTF-8"),
    (88, ">B", 0, "checksum"),
)
def test_a_damaged_field_is_named(at, layout, value, reason):
    with pytest.raises(CorruptRecord, match=reason):
        parse_record(changed(record(), at, layout, value))


def test_the_checksum_can_be_left_to_an_earlier_check():
    assert parse_record(changed(record(), 88, ">B", 0), check_crc=False).topic == "orders"


def test_with_the_records_own_checksum_every_flipped_bit_is_found():
    encoded = record(with_crc=True)
    assert parse_record(encoded, 2**33).properties.startswith(b"TAGS\x01new\x02KEYS\x01a b\x02__CRC32#\x01")
    for bit in range(8 * len(encoded)):
        damaged = bytearray(encoded)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            parsed = parse_record(bytes(damaged), 2**33, check_record_crc=True)
            assert isinstance(parsed, Record)
        except CorruptRecord:
            continue
        # Only the checksum property's own name and end may break unseen: the message is whole then.
        assert bit // 8 >= len(encoded) - CRC_PROPERTY_SIZE
        assert parsed._replace(properties=b"") == parsed_record(encoded)._replace(properties=b"")


def test_the_record_checksum_closes_properties_that_end_open():
    parsed = parse_record(record(properties=b"a\x01b", with_crc=True))
    assert parsed.properties.startswith(b"a\x01b\x02__CRC32#\x01")
    assert parse_record(record(properties=b"", with_crc=True)).properties.startswith(b"__CRC32#\x01")


def test_a_record_checksum_that_is_no_number_is_refused():
    encoded = record(with_crc=True)
    with pytest.raises(CorruptRecord, match="the record's checksum"):
        parse_record(encoded[:-3] + b"x" + encoded[-2:], check_record_crc=True)


def test_the_records_checksum_is_compared_only_where_the_broker_writes_it():
    encoded = record(properties=b"A\x01b\x02__CRC32#\x010123456789\x02")  # a client may write what it likes
    assert parsed_record(encoded).properties.endswith(b"0123456789\x02")


def test_an_answers_records_come_in_order():
    body = record(queue_offset=1) + record(queue_offset=2, topic="t" * 200) + record(queue_offset=3)
    assert [found.queue_offset for found in iter_records(body)] == [1, 2, 3]
    assert list(iter_records(b"")) == []


@each_case(b"\x00", bytes.fromhex("00000008cbd43194"))
def test_an_answer_that_ends_in_something_else_is_damaged(tail):
    records = iter_records(record() + tail)
    assert next(records).topic == "orders"
    with pytest.raises(CorruptRecord):
        next(records)


@each_case(
    {"properties": b"x" * 32768},
    {"properties": b"x" * 32767, "with_crc": True},
    {"topic": "t" * 32768},
    {"born_host": Host("localhost", 1)},
    {"store_host": Host("1.2.3.4", -1)},
)
def test_what_the_format_cannot_hold_is_refused(changes):
    with pytest.raises(InvalidArgument):
        record(**changes)


def test_a_host_is_address_and_port():
    assert format_host(V4) == bytes([10, 0, 0, 1, 0, 0, 4, 210])
    assert len(format_host(V6)) == 20


def test_what_is_left_out_of_a_record_is_zero():
    found = parsed_record(format_record(topic="t", body=b""))
    assert (found.queue_id, found.flag, found.queue_offset, found.physical_offset) == (0, 0, 0, 0)
    assert (found.sys_flag, found.born_at_ms, found.stored_at_ms) == (0, 0, 0)
    assert (found.reconsume_times, found.prepared_transaction_offset, found.properties) == (0, 0, b"")
    assert found.born_host == found.store_host == Host("0.0.0.0", 0)


def test_the_checksum_of_a_record_is_a_property_of_ten_digits_lowest_first():
    assert crc32(b"hello") == 907060870
    assert crc_property(b"hello") == b"__CRC32#\x010780607090\x02"
    assert crc_property(b"") == b"__CRC32#\x010000000000\x02"
    assert len(crc_property(b"hello")) == CRC_PROPERTY_SIZE


CONTENTS = [(b"", b""), (b"x" * 300, b"TAGS\x01a\x02"), (b"\xff" * 70_000, b"p" * 300)]


@each_case(*product(["t", "t" * 127, "t" * 128, "t" * 300], [V4, V6], [V4, V6], CONTENTS))
def test_properties_are_found_without_parsing_the_rest(topic, born, store, content):
    body, properties = content
    record = format_record(topic=topic, body=body, properties=properties, born_host=born, store_host=store)
    assert properties_at(record, 0, len(record)) == properties
    assert properties_at(bytearray(b"??" + record + b"!!"), 2, len(record)) == properties
    plain = format_record(topic="u", body=b"", properties=b"x\x01y\x02")
    places, sizes = [102, 102 + len(plain)], [len(plain), len(record)]
    found = properties_in(bytearray(b"??" + plain + record), 100, places, sizes)
    is_usual = born.ip == store.ip == "10.0.0.1" and len(topic) < 128
    assert found == ([b"x\x01y\x02", properties] if is_usual else None)
    assert properties_in(plain, 0, [0], [len(plain)]) == [b"x\x01y\x02"]


def number_in(encoded: bytes, topic: str = "orders", queue_id: int = 3) -> int | None:
    found: int | None = queue_offset_in(
        b"??" + encoded, 2, len(encoded), FIELDS["physical_offset"], queue_id, *format_topic(topic)
    )
    return found


@each_case(*product(["orders", "t" * 127, "t" * 128], [b"", b"a\x01b", b"p" * 512], [b"", b"hello"]))
def test_the_queue_offset_is_told_of_a_whole_record_of_the_queue(topic, properties, body):
    encoded = record(topic=topic, properties=properties, body=body)
    assert number_in(encoded, topic) == 11
    assert number_in(encoded, "x" * len(topic)) is None
    assert number_in(encoded, topic, 4) is None


@each_case({"born_host": V6}, {"store_host": V6}, {"properties": b"p" * 513})
def test_what_only_the_parser_can_tell_of_is_left_to_it(changes):
    assert number_in(record(**changes)) is None


def test_no_damage_gives_a_queue_offset_that_the_parser_would_not():
    whole = record()
    for at in range(len(whole)):
        for value in {0, 1, 0x7F, 0x80, 0xFF, whole[at] ^ 1} - {whole[at]}:
            damaged = whole[:at] + bytes((value,)) + whole[at + 1 :]
            number = number_in(damaged)
            if number is not None:
                found = parse_record(damaged, FIELDS["physical_offset"], check_crc=False)
                assert isinstance(found, Record)
                assert (found.size, found.topic, found.queue_id, found.queue_offset) == (
                    len(whole), "orders", 3, number,
                )  # fmt: skip


@each_case(-1, 0, RECORD_SIZE_MIN - 1)
def test_a_size_that_no_record_has_leads_to_none(size):
    assert queue_offset_in(record(), 0, size, FIELDS["physical_offset"], 3, *format_topic("orders")) is None


def test_queue_offsets_are_found_without_the_rest():
    bodies = [format_record(topic="t" * length, body=b"x" * length, queue_offset=7 * length) for length in (1, 90, 130)]
    assert queue_offsets_in(b"".join(bodies)) == [7, 630, 910]
    assert queue_offsets_in(b"") == []
