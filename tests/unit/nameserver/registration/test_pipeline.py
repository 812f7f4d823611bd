"""Claims about registrations: recognised, or parsed, checked and applied; then remembered and answered."""

from __future__ import annotations

import re
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cases import each_case
from orbitmq.model.topic import TopicConfig
from orbitmq.nameserver.registration import pipeline
from orbitmq.nameserver.registration.queue import JOB_SIZE_MIN, QUEUE_SIZE_MAX, PendingChange
from orbitmq.nameserver.routing.values import LEASE_MS, BrokerKey
from orbitmq.wire.bodies.route import decode_cluster_info
from orbitmq.wire.command import Command, encode_command
from orbitmq.wire.headers import DeleteTopicInNameServer, GetAllTopics, GetClusterInfo, PutKvConfig, WipeWritePerm
from orbitmq.wire.slices import Slices

from ...net.support import peer_of
from ..support import CLUSTER, Asker, address_of, asking, registration, route_of, topics_of
from .peers import TOPICS, Peers, drain

pytestmark = pytest.mark.real


async def test_brokers_are_told_ordered_topics_unless_switched_off(tmp_path: Path):
    async with asking(tmp_path, return_order_topic_config_to_broker=False) as asker:
        await asker.ask(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T1", value="a:4"))
        assert (await asker.register()).body == b""


async def test_brokers_are_told_each_change_of_the_ordered_topics(asker: Asker):
    assert (await asker.register()).body == b""
    for version, value in enumerate(("a:4", "a:5"), 1):
        await asker.ask(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T1", value=value))
        for topics in (("T1", "T2"), ("T1", "T2", "T3")):
            told = await asker.register("a", *topics, version=version)
            assert told.body == b'{"table":{"T1":"%s"}}' % value.encode()


@pytest.mark.parametrize("checked_size", [100, 4 * 2**20])
async def test_a_body_that_was_damaged_is_refused(tmp_path: Path, monkeypatch, checked_size: int):
    monkeypatch.setattr("orbitmq.nameserver.registration.pipeline.CHECKED_SIZE", checked_size)
    async with asking(tmp_path) as asker:
        header, body = registration("a", "T1", "T2")
        answer = await asker.ask(header, body + b" ")
        assert (answer.code, answer.remark) == (1, "crc32 not match")
        assert asker.server.service.tables.broker_count == 0
        assert (await asker.ask(header, body)).code == 0
        assert (await asker.ask(registration("a", "T1", "T2", body_crc32=0)[0], body)).code == 0
        for version in (1, 2):  # recognised bodies are checked as well
            wrong = await asker.register(version=version, body_crc32=7)
            assert (wrong.code, wrong.remark) == (1, "crc32 not match")


async def test_a_registration_that_cannot_be_read_is_refused_and_changes_nothing(asker: Asker):
    for body in (b"no json", b"[]", b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}'):
        assert (await asker.ask(registration("a", body_crc32=0)[0], body)).code == 1
    for name in ("../x", "", "a b"):
        assert (await asker.register(name)).code == 1
    assert (await asker.register("a", "only")).remark == "register broker failed"
    assert decode_cluster_info((await asker.ask(GetClusterInfo())).body).brokers == {}


async def test_a_topic_with_an_illegal_name_is_left_out_and_the_others_are_taken(asker: Asker):
    configs = {topic: TopicConfig(topic=topic) for topic in ("T1", "T2", "a\nb", "\x00")}
    header, body = registration("a", configs=configs)
    assert (await asker.ask(header, body)).code == 0
    assert set(await topics_of(asker, GetAllTopics())) == {"T1", "T2"}


async def test_topics_that_older_brokers_have_are_served_and_no_two_are_one(asker: Asker):
    names = [
        "订单",
        "\u00e9",
        "e\u0301",
        "E\u0301",
        "a b",
        "a/b",
        "..",
        'a"b',
        "a\\b",
        "a\\u0062",
        "ab",
        "<b>",
        "\U0001f680",
    ]
    configs = {name: TopicConfig(topic=name, read_queue_count=number) for number, name in enumerate(names, 1)}
    header, body = registration("a", configs=configs)
    assert (await asker.ask(header, body)).code == 0
    assert set(await topics_of(asker, GetAllTopics())) == set(names)
    for number, name in enumerate(names, 1):
        route = await route_of(asker, name)
        assert route is not None
        assert route.queues[0].read_queue_count == number
    assert (await asker.ask(DeleteTopicInNameServer(topic="e\u0301"))).code == 0
    assert set(await topics_of(asker, GetAllTopics())) == set(names) - {"e\u0301"}


async def test_a_broker_before_3_0_11_sends_its_topics_alone(tmp_path: Path):
    async with asking(tmp_path) as asker, peer_of(asker.server.server) as peer:
        header, _ = registration("a", body_crc32=0)
        body = b'{"dataVersion":{"counter":1},"topicConfigTable":{"T1":{"readQueueNums":3},"T2":{}}}'
        fields = {
            "brokerName": "a",
            "brokerAddr": header.broker_addr,
            "clusterName": CLUSTER,
            "haServerAddr": "h:1",
            "brokerId": "0",
        }
        await peer.send(encode_command(Command(103, 1, ext_fields=fields, body=body, version=36)))
        assert (await peer.receive()).code == 0
        assert (await route_of(asker)).queues[0].read_queue_count == 3


async def test_a_slave_is_told_its_master(asker: Asker):
    assert (await asker.register()).ext_fields == {}
    for _ in range(2):  # the second one is recognised without being parsed
        slave = await asker.register("a", broker_id=1)
        assert slave.ext_fields == {"haServerAddr": "ha-a-0:10911", "masterAddr": "a-0:10911"}


async def test_an_unchanged_registration_is_not_parsed_again_until_something_about_it_changes(tmp_path: Path):
    parsed: list[int] = []
    read = pipeline.read_registration

    def counting(*args, **kwargs):
        parsed.append(1)
        return read(*args, **kwargs)

    pipeline.read_registration = counting
    try:
        async with asking(tmp_path) as asker:
            for version in (1, 1, 2, 3):
                await asker.register(version=version)
            assert len(parsed) == 1
            assert asker.server.service.tables.lease_of((CLUSTER, "a", "a-0:10911")).data_version.counter == 3
            await asker.ask(DeleteTopicInNameServer(topic="T1"))
            await asker.register(version=3)
            assert len(parsed) == 2
            assert await route_of(asker) is not None
            await asker.register(version=3)
            await asker.register("a", "T1", "T2", "T3", version=4)
            await asker.register("a", "T1", "T2", "T3", "T4", version=5)
            assert len(parsed) == 2
            assert await route_of(asker, "T4") is not None
            await asker.register("a", "T1", version=6)
            assert len(parsed) == 3
            assert await route_of(asker, "T4") is not None
    finally:
        pipeline.read_registration = read


async def test_a_new_version_restores_a_wiped_permission_even_when_the_topics_are_the_same(asker: Asker):
    await asker.register(version=1)
    await asker.ask(WipeWritePerm(broker_name="a"))
    for _ in range(2):
        await asker.register(version=1)
        assert (await route_of(asker)).queues[0].perm == 4
    await asker.register(version=2)
    assert (await route_of(asker)).queues[0].perm == 6


async def test_topics_that_changed_under_the_same_version_count_with_the_next_one(asker: Asker):
    await asker.register("a", "T1", "T2")

    async def register(count: int, version: int) -> int:
        configs = {topic: TopicConfig(topic=topic, read_queue_count=count) for topic in ("T1", "T2")}
        header, body = registration("a", configs=configs, version=version)
        assert (await asker.ask(header, body)).code == 0
        return (await route_of(asker)).queues[0].read_queue_count

    assert [await register(*step) for step in ((3, 1), (3, 1), (3, 2), (5, 3), (7, 3), (7, 4))] == [
        16,
        16,
        3,
        5,
        5,
        7,
    ]


async def test_an_unchanged_registration_renews_the_lease(asker: Asker):
    await asker.register()
    asker.clock.advance(100_000)
    await asker.register()
    asker.clock.advance(100_000)
    asker.server.scan()
    assert await route_of(asker) is not None


async def test_compressed_registrations_of_4_x_are_read(tmp_path: Path):
    def piece(text: str) -> bytes:
        return len(text).to_bytes(4, "big") + text.encode()

    plain = piece('{"counter":1,"stateVersion":0,"timestamp":0}') + (2).to_bytes(4, "big")
    plain += piece("T1 3 3 6 SINGLE_TAG") + piece("T2 4 4 6 SINGLE_TAG") + piece("[]")
    body = zlib.compress(plain, 9)
    async with asking(tmp_path) as asker:
        header, _ = registration("a", compressed=True, body_crc32=zlib.crc32(body) & 0x7FFFFFFF)
        assert (await asker.ask(header, body)).code == 0
        assert (await route_of(asker)).queues[0].read_queue_count == 3


PAGE = Path(__file__).parents[4] / "docs" / "explain" / "registrations.md"
VALUES = ["routing/values.py", "routing/events.py"]
LISTENERS = ["route_cache.py", "fast_path.py", "monitoring/route_history.py", "service.py"]
"""What is told of changes; of the service only its listeners' defaults."""


def files_passed(peers: Peers, number: int, **options: Any) -> tuple[list[str], set[tuple[str, str]]]:
    """Register and return the NameServer's files that ran, in order of their first call, and who called whom."""
    passed: dict[str, None] = {}
    calls: set[tuple[str, str]] = set()

    def file_of(frame: FrameType | None) -> str | None:
        path = "" if frame is None else frame.f_code.co_filename
        return path.partition("/orbitmq/nameserver/")[2] or None

    def note(frame: FrameType, event: str, argument: object) -> None:
        file, caller = file_of(frame), file_of(frame.f_back)
        if event == "call" and file is not None and file not in (*VALUES, *LISTENERS):
            passed[file] = None
            if caller is not None and caller != file:
                calls.add((caller, file))

    header, body = registration("a", **options)
    sys.setprofile(note)
    try:
        peers.ask(number, 1, header, body)
        drain(peers.service.queue)
    finally:
        sys.setprofile(None)
    return list(passed), calls


def test_a_registration_passes_the_files_that_the_page_lists_and_never_climbs_back():
    listed = re.findall(r"^\d+\. `([\w/]+\.py)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) <= 9
    peers, passed = Peers(), set[str]()
    for number, topics in enumerate([TOPICS[:2], TOPICS[:2], TOPICS[:3]]):
        files, calls = files_passed(
            peers, number, configs={topic: TopicConfig(topic=topic) for topic in topics}, version=number
        )
        passed |= set(files)
        climbs = {(caller, callee) for caller, callee in calls if listed.index(caller) > listed.index(callee)}
        # The queue goes on with what the pipeline has left to do: it calls a generator, and knows nothing of it.
        assert climbs <= {("registration/queue.py", "registration/pipeline.py")}
    assert passed == set(listed)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"broker_name": "../x"}, "brokerName"),
        ({"cluster_name": "a b"}, "clusterName"),
        ({"broker_addr": "x/y:1"}, "brokerAddr"),
    ],
)
async def test_each_name_of_a_broker_has_to_be_legal(fields: dict[str, str], what: str, asker: Asker):
    header, body = registration("a", "T1", "T2")
    refused = await asker.ask(replace(header, **fields), body)
    assert refused.code == 1
    assert what in (refused.remark or "")
    assert (await asker.ask(replace(header, broker_addr="[::1]:10911"), body)).code == 0


@each_case((None, LEASE_MS), (0, 0), (1, 1), (-5, 0), (2**63 - 1, pipeline.LEASE_MS_MAX))
def test_a_lease_is_as_long_as_the_broker_asks_within_limits(asked_ms: int | None, lease_ms: int):
    peers = Peers()
    peers.ask(0, 1, *registration("a", "t0", "t1", heartbeat_timeout_millis=asked_ms))
    drain(peers.service.queue)
    lease = peers.service.tables.lease_of(BrokerKey(CLUSTER, "a", address_of("a")))
    assert lease is not None
    assert lease.lease_ms == lease_ms


def test_topics_that_are_left_out_are_counted_in_one_line(caplog: pytest.LogCaptureFixture):
    peers = Peers()
    peers.ask(0, 1, *registration("a", "t0", "a\nb", "t1", "", "t2"))
    drain(peers.service.queue)
    assert caplog.messages == ["a at x:1: left out 2 topics with illegal names"]
    peers.ask(1, 1, *registration("b", "t0", "t1"))
    drain(peers.service.queue)
    assert len(caplog.messages) == 1


def waiting(peers: Peers, *concerns: str) -> None:
    """Let as many bytes wait as may, for a change of some brokers."""

    def slices() -> Slices[None]:
        yield

    peers.service.queue.append(PendingChange(9, QUEUE_SIZE_MAX, frozenset(concerns), slices()))


def test_while_too_much_waits_what_would_wait_as_well_is_refused():
    peers = Peers()
    waiting(peers, "b")
    header, body = registration("b", "t0", "t1", body_crc32=0)
    peers.ask(0, 1, header, body)
    peers.ask(1, 1, WipeWritePerm(broker_name="b"))
    peers.ask(2, 1, *registration("a", "t0", "t1", body_crc32=0)[:1], body.ljust(JOB_SIZE_MIN + 1))
    assert [(number, reply.code) for number, reply in peers.done] == [(0, 2), (1, 2), (2, 2)]
    peers.ask(3, 1, *registration("a", "t0", "t1", body_crc32=0)[:1], body.ljust(JOB_SIZE_MIN))
    peers.ask(4, 1, WipeWritePerm(broker_name="unknown"))
    drain(peers.service.queue)
    assert [(number, reply.code) for number, reply in peers.done[3:]] == [(4, 0), (3, 0)]
