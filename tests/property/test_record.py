"""Round trips of the message formats."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord, HeaderError
from orbitmq.model.message import Host
from orbitmq.wire.messages.batch import encode_batch, parse_batch
from orbitmq.wire.messages.message_id import offset_message_id, parse_offset_message_id
from orbitmq.wire.messages.properties import find_property, format_properties, parse_properties
from orbitmq.wire.messages.record import format_record, iter_records, parse_record

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.builds(Host, st.ip_addresses().map(str), st.integers(0, 65535))
text = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"]), min_size=1, max_size=20)
properties = st.dictionaries(text, text, max_size=6)
records = st.fixed_dictionaries(
    {
        "topic": st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=150),
        "body": st.binary(max_size=300),
        "properties": properties.map(format_properties),
        "queue_id": int32,
        "flag": int32,
        "queue_offset": int64,
        "physical_offset": int64,
        "born_at_ms": int64,
        "born_host": hosts,
        "stored_at_ms": int64,
        "store_host": hosts,
        "reconsume_times": int32,
        "prepared_transaction_offset": int64,
        "with_crc": st.booleans(),
    }
)


@given(records, st.binary(max_size=50))
def test_a_record_survives_whatever_follows_it(fields, trailing):
    encoded = format_record(**fields)
    parsed = parse_record(memoryview(encoded + trailing), fields["physical_offset"])
    for name in fields.keys() - {"with_crc", "properties"}:
        assert getattr(parsed, name) == fields[name]
    assert parsed.properties.startswith(fields["properties"])
    assert parsed.size == len(encoded)


@given(st.lists(records, max_size=5))
def test_an_answer_comes_apart_into_its_records(sent):
    body = b"".join(format_record(**fields) for fields in sent)
    assert [record.queue_offset for record in iter_records(body)] == [fields["queue_offset"] for fields in sent]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_record_or_corrupt(data):
    with contextlib.suppress(CorruptRecord):
        parse_record(data)


@given(records, st.data())
def test_a_damaged_record_parses_or_is_corrupt_and_nothing_else(fields, data):
    encoded = bytearray(format_record(**fields))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptRecord):
        parse_record(bytes(encoded))


@given(properties)
def test_properties_survive(pairs):
    encoded = format_properties(pairs)
    assert parse_properties(encoded) == pairs
    assert parse_properties(encoded[:-1]) == pairs


@given(
    st.binary(max_size=60).map(lambda data: data.replace(b"a", b"\x01").replace(b"b", b"\x02")), st.sampled_from("xyz")
)
def test_finding_one_property_agrees_with_parsing_all(data, name):
    encoded = data.decode("latin-1").encode()
    found = find_property(encoded, name.encode())
    assert (found.decode() if found else None) == parse_properties(encoded).get(name)


@given(st.lists(st.tuples(int32, st.binary(max_size=40), st.binary(max_size=40)), max_size=6))
def test_a_batch_survives(items):
    assert [tuple(item) for item in parse_batch(encode_batch(items))] == items


@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_refused(data):
    with contextlib.suppress(HeaderError):
        assert encode_batch(parse_batch(data)).__len__() == len(data)


@given(hosts, st.integers(0, 2**63 - 1))
def test_an_offset_message_id_survives(host, physical_offset):
    assert parse_offset_message_id(offset_message_id(host, physical_offset)) == (host, physical_offset)
