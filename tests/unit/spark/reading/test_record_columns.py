"""Properties, hosts and offset message ids of many records are those that `orbitmq.wire` reads one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.model.message import Host
from orbitmq.spark.reading import record_columns as module
from orbitmq.spark.reading.record_columns import Properties, format_hosts, format_mixed_hosts, format_offset_ids
from orbitmq.spark.schema import PROPERTIES
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import HOST_SIZE_V6, format_host

NAMES = ("a", "TAGS", "UNIQ_KEY", "UNIQ_KEYS", "UNIQ_KEYé", "nobody")
pieces = st.sampled_from([*NAMES[:-1], "b", "\x01", "\x02", "v", "é", "\x00"])
rows = st.lists(st.lists(pieces, max_size=10).map("".join), max_size=8)


def parse(texts: list[str]) -> Properties:
    return Properties.parse(pa.array([text.encode() for text in texts], pa.binary()))


@given(rows)
@example([])
@example(["a\x01v", "\x02a\x01v"])
@example(["", "a\x01v\x02", ""])
@example(["a\x01v\x02" * 20, "b\x01v"])
@example(["UNIQ_KEYS\x01v\x02UNIQ_KEY\x01w\x02UNIQ_KEYé\x01x"])
def test_maps_and_values_are_read_as_one_by_one(texts):
    found = parse(texts)
    expected = [parse_properties(text) for text in texts]

    maps = found.as_map()
    maps.validate(full=True)
    assert maps.type == PROPERTIES
    assert [dict(pairs) for pairs in maps.to_pylist()] == expected
    for name in NAMES:
        assert found.find(name).to_pylist() == [row.get(name) for row in expected]


@pytest.mark.parametrize("pairs_max", [0, 16])
def test_of_equal_names_in_one_record_the_last_wins(pairs_max, monkeypatch):
    monkeypatch.setattr(module, "_PAIRS_MAX", pairs_max)

    found = parse(["a\x01one\x02b\x01x\x02a\x01two\x02", "a\x01three\x02"])

    assert found.as_map().to_pylist() == [[("b", "x"), ("a", "two")], [("a", "three")]]
    assert found.find("a").to_pylist() == ["two", "three"]


@pytest.mark.parametrize("pairs_max", [0, 16])
def test_records_without_equal_names_keep_all_their_pairs(pairs_max, monkeypatch):
    monkeypatch.setattr(module, "_PAIRS_MAX", pairs_max)

    assert parse(["a\x011\x02b\x012", "b\x013"]).as_map().to_pylist() == [[("a", "1"), ("b", "2")], [("b", "3")]]


def test_text_that_is_no_utf_8_is_shown_with_replacement_characters():
    found = Properties.parse(pa.array([b"a\x01\xff\x02", b"a\x01ok\x02"]))

    assert found.find("a").to_pylist() == ["\ufffd", "ok"]


V4 = st.sampled_from(["127.0.0.1", "10.0.0.255", "255.1.2.3", "0.0.0.0"])
V6 = st.sampled_from(["::1", "fe80::1", "2001:db8::7"])
stored = st.lists(
    st.tuples(st.builds(Host, st.one_of(V4, V6), st.integers(0, 65535)), st.integers(0, 2**63 - 1)), max_size=6
)
stored_v4 = st.lists(st.tuples(st.builds(Host, V4, st.integers(0, 65535)), st.integers(0, 2**63 - 1)), max_size=6)


def laid_out(hosts: list[Host]):
    """Return bytes that hold the hosts, where each is, and which are IPv6."""
    raw, positions = b"\xee", []
    for host in hosts:
        positions.append(len(raw))
        raw += format_host(host) + b"\xee"
    is_v6 = [len(format_host(host)) == HOST_SIZE_V6 for host in hosts]
    return np.frombuffer(raw, np.uint8), np.array(positions, np.int64), np.array(is_v6, np.bool_)


@given(st.one_of(stored, stored_v4))
def test_hosts_are_formatted_as_one_by_one(entries):
    hosts = [host for host, _ in entries]

    found = format_mixed_hosts(*laid_out(hosts))

    assert (found.type, found.to_pylist()) == (pa.string(), [str(host) for host in hosts])


@given(stored_v4)
@example([(Host("10.0.0.255", 10911), 0)] * 3)
def test_hosts_of_ipv4_are_formatted_as_one_by_one(entries):
    hosts = [host for host, _ in entries]

    found = format_hosts(np.frombuffer(b"".join(map(format_host, hosts)), ">u8"))

    assert (found.type, found.to_pylist()) == (pa.string(), [str(host) for host in hosts])


@given(st.one_of(stored, stored_v4))
def test_offset_ids_are_formatted_as_one_by_one(entries):
    offsets = np.array([offset for _, offset in entries], ">i8")

    found = format_offset_ids(*laid_out([host for host, _ in entries]), offsets)

    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (pa.string(), [offset_message_id(*entry) for entry in entries])


@each_case(("10.0.0.1", 32), ("::1", 56))
def test_an_offset_id_has_its_length(ip, length):
    (found,) = format_offset_ids(*laid_out([Host(ip, 10911)]), np.array([7], ">i8")).to_pylist()

    assert len(found) == length
    assert found.endswith("00002A9F" + "0000000000000007")
