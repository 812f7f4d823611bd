"""The limits of what a request may hold: numbers that peers can read, and names that do not count."""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import pack
from typing import Any

import orjson
import pytest

from hostile.served import serving
from orbitmq.wire.headers import RegisterTopicInNameServer
from unit.nameserver.support import registration

OUTSIDE = (2**31, -(2**31) - 1)
NUMBERS = ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")


def registering(number: str, value: int) -> tuple[object, bytes]:
    header, body = registration("a", "T1", "T2", body_crc32=0)
    document: dict[str, Any] = orjson.loads(body)
    document["topicConfigSerializeWrapper"]["topicConfigTable"]["T1"][number] = value
    return header, orjson.dumps(document)


@pytest.mark.parametrize("value", OUTSIDE)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_registration_with_a_number_that_no_java_client_can_read_is_refused(
    number: str, value: int, tmp_path: Path
) -> None:
    with serving(tmp_path) as served, served.link() as link:
        assert link.ask(*registering(number, value)).code == 1
        assert link.brokers() == set()


@pytest.mark.parametrize("value", OUTSIDE)
@pytest.mark.parametrize("place", range(3))
def test_a_compressed_registration_with_such_a_number_is_refused(place: int, value: int, tmp_path: Path) -> None:
    def piece(text: str) -> bytes:
        return pack(">i", len(text)) + text.encode()

    numbers = [str(value if number == place else 6) for number in range(3)]
    lines = [f"T1 {' '.join(numbers)} SINGLE_TAG {{}}", "T2 8 8 6 SINGLE_TAG {}"]
    version = '{"counter":1,"stateVersion":0,"timestamp":0}'
    body = b"".join((piece(version), pack(">i", 2), *map(piece, lines), piece("[]"), pack(">i", 0)))
    header, _ = registration("a", "T1", "T2", body_crc32=0, compressed=True)
    with serving(tmp_path) as served, served.link() as link:
        assert link.ask(header, zlib.compress(body)).code == 1
        assert link.brokers() == set()


@pytest.mark.parametrize("value", OUTSIDE)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_registered_topic_with_such_a_number_is_refused(number: str, value: int, tmp_path: Path) -> None:
    numbers = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0, number: value}
    body = orjson.dumps({"queueDatas": [{"brokerName": "a", **numbers}], "brokerDatas": []})
    with serving(tmp_path) as served, served.link() as link:
        link.register("a")
        assert link.ask(RegisterTopicInNameServer(topic="T9"), body).code == 1
        assert link.route("T9") is None


def test_a_new_broker_that_lists_two_topics_is_taken_with_the_one_whose_name_is_legal(tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as link:
        link.register("a", "good", "bad name!")
        assert link.route("good") is not None


LONG = "x" * 256
SERVERS = tuple(f"filter-{number}:10911" for number in range(65))
TOO_MUCH: dict[str, dict[str, Any]] = {
    "haServerAddr has 256 characters, at most 255 are taken": {"ha_server_addr": LONG},
    "zoneName has 256 characters, at most 255 are taken": {"zone_name": LONG},
    "filterServerList has 65 addresses, at most 64 are taken": {"filter_servers": SERVERS},
    "an address in filterServerList has 256 characters, at most 255 are taken": {"filter_servers": (LONG,)},
}


@pytest.mark.parametrize("remark", TOO_MUCH)
def test_a_registration_whose_texts_every_route_would_show_is_refused_when_they_are_long(
    remark: str, tmp_path: Path
) -> None:
    """Present brokers keep what was registered before; the longest that is taken is shown whole."""
    options = TOO_MUCH[remark]
    allowed = {name: value[:255] if isinstance(value, str) else SERVERS[:64] for name, value in options.items()}
    with serving(tmp_path) as served, served.link() as link:
        link.register("a", **allowed)
        before = link.route("T1")
        refused = link.ask(*registration("a", "T1", "T2", "T3", version=2, **options))
        assert (refused.code, refused.remark) == (1, remark)
        assert link.route("T1") == before
        assert link.route("T3") is None
        link.register("a", "T1", "T2", "T3", version=2, **allowed)
        assert link.route("T3") is not None


MAPPINGS: dict[str, Any] = {
    "no table": [1, 2],
    "no object": {"T1": 7},
    "a name that is not text": {"T1": {"bname": ["a"]}},
    "a number as name": {"T1": {"bname": 7}},
    "a name that means something elsewhere": {"T1": {"bname": "$(id)"}},
    "a topic that means something elsewhere": {"../T1": {"bname": "a"}},
    "a large one": {"T1": {"bname": "a", "currIdMap": {str(number): number for number in range(3_000)}}},
    "many": {f"T{number}": {} for number in range(10_001)},
}


@pytest.mark.parametrize("what", MAPPINGS)
def test_a_registration_with_mappings_that_no_route_can_show_enters_nothing(what: str, tmp_path: Path) -> None:
    """A broker that was entered by half had no lease: it stayed in the routes for ever."""
    header, body = registration("a", "T1", "T2", body_crc32=0)
    document: dict[str, Any] = orjson.loads(body)
    document["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = MAPPINGS[what]
    with serving(tmp_path) as served, served.link() as link:
        assert link.ask(header, orjson.dumps(document)).code == 1
        assert link.brokers() == set()
        assert link.route("T1") is None


def test_compressed_mappings_are_bounded_once_inflated(tmp_path: Path) -> None:
    def piece(text: str) -> bytes:
        return pack(">i", len(text)) + text.encode()

    mappings = [piece(f'{{"topic":"S{number}","junk":"{"x" * 10_000}"}}') for number in range(200)]
    lines = (piece("T1 4 4 6 SINGLE_TAG {}"), piece("T2 8 8 6 SINGLE_TAG {}"))
    version = piece('{"counter":1,"stateVersion":0,"timestamp":0}')
    body = b"".join((version, pack(">i", 2), *lines, piece("[]"), pack(">i", len(mappings)), *mappings))
    header, _ = registration("a", "T1", "T2", body_crc32=0, compressed=True)
    with serving(tmp_path) as served, served.link() as link:
        assert link.ask(header, zlib.compress(body)).code == 1
        assert link.brokers() == set()
