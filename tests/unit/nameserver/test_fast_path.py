"""Claims about repeated registrations: answered without parsing, and never otherwise than the pipeline would."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.fast_path import NameServerFastPath, RegistrationFastPath
from orbitmq.nameserver.handlers import handlers
from orbitmq.nameserver.registration.pipeline import ORDER_TOPIC_NAMESPACE
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.counters import Counters
from orbitmq.net.dispatch.dispatcher import Dispatcher
from orbitmq.net.dispatch.reply import Reply, encode_reply
from orbitmq.net.session import make_request
from orbitmq.wire.command import decode_command, encode_command
from orbitmq.wire.frame import Frame, FrameDecoder
from orbitmq.wire.headers import (
    DeleteTopicInNameServer,
    GetRouteInfo,
    PutKvConfig,
    RegisterBrokerResponse,
    UnregisterBroker,
    WipeWritePerm,
)
from seeds import examples

from .persistence.saving import saved
from .support import CLUSTER, address_of, registration

REGISTER = 103


@dataclass
class Line:
    """What handlers and fast paths see of a connection."""

    id: int
    side: Side
    remote: str = "10.0.0.9:5"
    counters: Counters = field(default_factory=Counters)
    pending_count: int = 0

    def now_ms(self) -> int:
        return self.side.ms


class Side:
    """A service behind its handlers, with or without the fast path."""

    def __init__(self, folder: Path, *, is_short: bool) -> None:
        self.ms = 1_000
        config = NameServerConfig(kv_config_path=folder / f"kv-{is_short}.json")
        self.service = NameServerService(config, lease_clock=lambda: self.ms)
        service = self.service
        self.dispatcher = Dispatcher(handlers, service, name="test", counters=Counters(), clock=lambda: self.ms)
        self.fast_path = service.registration_fast_path
        self.port = NameServerFastPath(service.route_queries, self.fast_path) if is_short else None
        self.short_count = 0

    def serve(self, data: bytes, connection_id: int) -> bytes:
        line: Any = Line(connection_id, self)
        answers: list[bytes] = []
        if self.port is not None and self.port.answer(data, answers, line) == len(data):
            self.short_count += 1
            return b"".join(answers)
        (frame,) = FrameDecoder().feed(data)
        command = decode_command(frame)
        reply = self.dispatcher.answer(command, line)
        assert isinstance(reply, Reply)
        if self.port is not None:
            self.port.learn(frame, command, reply)
        return encode_reply(command, reply)

    @property
    def state(self) -> object:
        tables = self.service.tables
        leases = {
            key: repr(tables.lease_of(key)) for key in (BrokerKey(CLUSTER, who[0], address_of(*who)) for who in BROKERS)
        }
        return leases, [self.service.find_route(topic) for topic in TOPICS]


BROKERS = [("a", 0), ("a", 1), ("b", 0)]
TOPICS = ("T1", "T2", "T3")

who = st.sampled_from(BROKERS)
FIRST = registration("a", "T1", "T2")
NEW_VERSION = registration("a", "T1", "T2", version=2)
SHORT_LEASE = registration("a", "T1", "T2", heartbeat_timeout_millis=9_000)
UNCHECKED = registration("a", "T1", "T2", body_crc32=0)
UNCHECKED_OTHER = registration("a", "T1", "T3", body_crc32=0)
UNUSUAL = 2_000_000_000
opaques = st.sampled_from([0, 0, UNUSUAL])
# Few, so that the same one comes again after something else has happened.
registrations = st.sampled_from(
    [
        FIRST,
        NEW_VERSION,
        SHORT_LEASE,
        UNCHECKED,
        UNCHECKED_OTHER,
        registration("a", "T1", "T2", broker_id=1),
        registration("b", "T1", "T2"),
        registration("b", "T1", "T2", zone_name="z"),
    ]
)
others = st.one_of(
    who.map(lambda who: (UnregisterBroker(broker_name=who[0], broker_addr=address_of(*who), cluster_name=CLUSTER, broker_id=who[1]), b"")),
    st.sampled_from(TOPICS).map(lambda topic: (DeleteTopicInNameServer(topic=topic), b"")),
    st.sampled_from(["a", "b"]).map(lambda name: (WipeWritePerm(broker_name=name), b"")),
    st.sampled_from(TOPICS).map(lambda topic: (GetRouteInfo(topic=topic), b"")),
    st.sampled_from(TOPICS).map(lambda topic: (PutKvConfig(namespace=ORDER_TOPIC_NAMESPACE, key=topic, value="a:1"), b"")),
    st.integers(1, 150_000),
)  # fmt: skip


def frame_of(header: object, body: bytes, opaque: int) -> bytes:
    return encode_command(make_request(header, body)._replace(opaque=opaque))


@pytest.fixture
def side(tmp_path: Path) -> Side:
    return Side(tmp_path, is_short=True)


@example([(FIRST, 1, 0), (NEW_VERSION, 1, 0), (FIRST, 1, 0)])
@example([(FIRST, 1, 0), (SHORT_LEASE, 1, UNUSUAL), (FIRST, 1, 0)])
@example([(UNCHECKED, 1, 0), (UNCHECKED_OTHER, 1, 0), (UNCHECKED, 1, 0)])
@example([(FIRST, 1, 0), ((DeleteTopicInNameServer(topic="T1"), b""), 1, 0), (FIRST, 2, 0)])
@settings(max_examples=examples(300))
@given(st.lists(st.tuples(st.one_of(registrations, registrations, others), st.integers(1, 3), opaques), max_size=25))
def test_whatever_happens_nothing_is_answered_or_kept_otherwise(tmp_path_factory: Any, steps: list[Any]):
    folder = tmp_path_factory.mktemp("kv")
    sides = [Side(folder, is_short=True), Side(folder, is_short=False)]
    for number, (step, connection_id, opaque) in enumerate(steps):
        said = []
        for side in sides:
            if isinstance(step, int):
                side.ms += step
                side.service.expire(side.ms, lambda key, lease: None)
            else:
                said.append(
                    [side.serve(frame_of(*step, opaque + number + turn), connection_id) for turn in (0, 10_000)]
                )
        assert said[1:] == said[:1] * (len(said) - 1)
        assert sides[0].state == sides[1].state


def test_a_repeated_registration_is_recognised_by_its_bytes(side: Side):
    header, body = registration("a", "T1", "T2")
    first = side.serve(frame_of(header, body, 1), 1)
    side.ms += 5
    for opaque in (2, 30, 123_456_789):
        answer = side.serve(frame_of(header, body, opaque), 1)
        (frame,) = FrameDecoder().feed(answer)
        assert decode_command(frame) == decode_command(*FrameDecoder().feed(first))._replace(opaque=opaque)
    assert side.short_count == 3
    assert side.service.tables.lease_of(BrokerKey(CLUSTER, "a", address_of("a"))).renewed_at_ms == 1_005


@pytest.mark.parametrize("opaque", [-1, 1_234_567_890, 2**31 - 1])
def test_an_unusual_opaque_is_left_to_the_pipeline(opaque: int, side: Side):
    header, body = registration("a", "T1", "T2")
    side.serve(frame_of(header, body, 1), 1)
    assert decode_command(*FrameDecoder().feed(side.serve(frame_of(header, body, opaque), 1))).opaque == opaque
    assert side.short_count == 0


def test_less_or_more_than_one_frame_is_not_taken(side: Side):
    data = frame_of(*registration("a", "T1", "T2"), 1)
    side.serve(data, 1)
    line: Any = Line(1, side)
    for other in (data[:7], data[:-1], data + data, data + b"\0", frame_of(*registration("a", "T1", "T2"), 2)[:60]):
        assert side.fast_path.answer(other, [], line) == 0
    assert side.fast_path.answer(data, [], line) == len(data)


def test_what_comes_behind_an_unfinished_registration_waits_for_it(side: Side):
    data = frame_of(*FIRST, 1)
    side.serve(data, 1)
    line: Any = Line(1, side)
    header, body = registration("a", *(f"G{number}" for number in range(5_000)))
    (frame,) = FrameDecoder().feed(frame_of(header, body, 2))
    side.dispatcher.answer(decode_command(frame), line)
    assert side.service.queue.jobs
    assert side.fast_path.answer(data, [], line) == 0


def test_a_text_is_learnt_from_an_unconditional_success_alone(side: Side):
    header, body = registration("a", "T1", "T2")
    (frame,) = FrameDecoder().feed(frame_of(header, body, 1))
    command, fast_path = decode_command(frame), side.fast_path
    line: Any = Line(1, side)
    success = Reply(header=RegisterBrokerResponse())
    fast_path.learn(frame, command, success)  # nothing is remembered of this broker
    side.dispatcher.answer(command, line)
    fast_path.learn(frame, command, success._replace(code=1))
    fast_path.learn(frame, command, success._replace(body=b"{}"))
    fast_path.learn(frame, command._replace(ext_fields=None), success)
    fast_path.learn(frame, command, Reply())
    fast_path.learn(Frame(1, b"", b""), command, success)
    assert fast_path.answer(frame_of(header, body, 1), [], line) == 0
    fast_path.learn(frame, command, success)
    assert fast_path.answer(frame_of(header, body, 1), [], line) > 0


def test_texts_of_brokers_that_are_gone_do_not_pile_up(side: Side):
    service = side.service
    side.fast_path = RegistrationFastPath(
        service.route_table, service.bodies, service.queue, lease_clock=service.lease_clock, texts_max=3
    )
    side.port = NameServerFastPath(service.route_queries, side.fast_path)
    for number in range(10):
        side.serve(frame_of(*registration(f"n{number}", "T1", "T2"), 1), 1)
        assert len(side.fast_path) <= 3
    count = len(side.fast_path)
    for version in (2, 3):
        side.serve(frame_of(*registration("n9", "T1", f"T{version}", version=version), 1), 1)
        assert len(side.fast_path) == count


async def test_other_settings_count_for_the_very_next_registration(side: Side):
    service = side.service
    await saved(service.kv.put, ORDER_TOPIC_NAMESPACE, "T1", "a:1")
    service.reconfigure(replace(service.config, return_order_topic_config_to_broker=False))
    for opaque in (1, 2):
        assert decode_command(*FrameDecoder().feed(side.serve(frame_of(*FIRST, opaque), 1))).body == b""
    assert side.short_count == 1
    service.reconfigure(replace(service.config, return_order_topic_config_to_broker=True))
    answer = decode_command(*FrameDecoder().feed(side.serve(frame_of(*FIRST, 3), 1)))
    assert answer.body == b'{"table":{"T1":"a:1"}}'


def slave_of(side: Side) -> bytes:
    """Register a master and its slave, and return the slave's registration."""
    side.serve(frame_of(*registration("a", "T1", "T2"), 1), 1)
    data = frame_of(*registration("a", "T1", "T2", broker_id=1), 1)
    side.serve(data, 2)
    return data


def test_a_slave_is_recognised_by_its_bytes_while_its_master_is_the_same(side: Side):
    data, line = slave_of(side), Line(2, side)
    assert side.fast_path.answer(data, [], line) == len(data)  # type: ignore[arg-type]
    assert line.counters.requests == {REGISTER: 1}
    side.service.tables.leases.end(BrokerKey(CLUSTER, "a", address_of("a")))
    assert side.fast_path.answer(data, [], line) == 0  # type: ignore[arg-type]


def test_a_registration_without_a_body_is_recognised_as_well(side: Side):
    data = frame_of(registration("a", body_crc32=0)[0], b"", 1)
    side.serve(data, 1)
    assert side.fast_path.answer(data, [], Line(1, side)) == len(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["no opaque", "unknown", "changed", "other body", "no lease", "too short"])
def test_what_is_not_the_same_is_left_alone(what: str, side: Side):
    header, body = registration("a", "T1", "T2")
    data, tables = frame_of(header, body, 1), side.service.tables
    side.serve(data, 1)
    match what:
        case "no opaque":
            data = data.replace(b'"opaque":', b'"opaqua":')
        case "unknown":
            data = frame_of(*registration("b", "T1", "T2"), 1)
        case "changed":
            side.serve(frame_of(WipeWritePerm(broker_name="a"), b"", 2), 1)
        case "other body":
            data = data[:-1] + b" "
        case "no lease":
            tables.leases.end(BrokerKey(CLUSTER, "a", address_of("a")))
        case "too short":
            data = data[:7]
    answers: list[bytes] = []
    assert (side.fast_path.answer(data, answers, Line(1, side)), answers) == (0, [])  # type: ignore[arg-type]


def test_texts_that_were_dropped_take_no_room(side: Side):
    service = side.service
    side.fast_path = RegistrationFastPath(
        service.route_table, service.bodies, service.queue, lease_clock=service.lease_clock, texts_max=2
    )
    side.port = NameServerFastPath(service.route_queries, side.fast_path)
    for names in ("ab", "cde"):
        for name in names:
            side.serve(frame_of(*registration(name, "T1", "T2"), 1), 1)
        assert len(side.fast_path) == 2
        side.fast_path.clear()
        assert len(side.fast_path) == 0
