"""Claims about registrations: checked, entered in slices as if each had been entered whole, and remembered.

A late request of an old connection spares a new registration: apache/rocketmq#11043.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import HeaderError, Rejected
from orbitmq.model.topic import TopicConfig
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.handlers import handlers
from orbitmq.nameserver.routing.events import Cause
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import LATER, Call, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies import registration as bodies
from orbitmq.wire.bodies import topic_table
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.command import Command
from orbitmq.wire.header import code_of
from orbitmq.wire.headers import (
    BrokerHeartbeat,
    DeleteTopicInNameServer,
    GetRouteInfo,
    UnregisterBroker,
    WipeWritePerm,
)
from waiting import until

from ..support import CLUSTER, address_of, asking, registration

TOPICS = ("t0", "t1", "t2", "t3")
# The long form is `ORBITMQ_MODEL_STEPS=1000000`.
STEPS = int(os.environ.get("ORBITMQ_MODEL_STEPS", "6000"))
STEPS_PER_HISTORY = 25


class Peers:
    """A service without a server, and connections that ask it; every registration takes several slices."""

    def __init__(self, *, in_one_go: bool = False, deletes_missing_topics: bool = False) -> None:
        config = NameServerConfig(delete_topic_with_broker_registration=deletes_missing_topics)
        self.service = NameServerService(config, slice_topics=1)
        self.done: list[tuple[int, Any]] = []
        """Numbers and answers of what was asked, in the order in which it took effect."""
        self._in_one_go = in_one_go
        self._handlers = handlers.bind(self.service)

    def ask(self, number: int, connection: int, header: object, body: bytes = b"") -> None:
        peer: Any = SimpleNamespace(id=connection, remote=f"x:{connection}")
        peer.answer_later = lambda _, reply, was_parked: self.done.append((number, reply))
        call: Call[Any] = Call(header, Command(code_of(type(header)), body=body), peer, 1_000 + number)
        _, handle, part = self._handlers[code_of(type(header))]
        try:
            reply = handle(part, call)
        except Rejected as refusal:
            reply = Reply(refusal.code, refusal.remark)
        except HeaderError as error:
            reply = Reply(1, str(error))
        if reply is not LATER:
            self.done.append((number, reply))
        if self._in_one_go:
            self.service.queue.finish()

    def leave(self, number: int, connection: int) -> None:
        self.service.disconnect(connection, 1_000 + number, "")
        self.done.append((number, None))

    def look(self) -> Any:
        tables = self.service.tables
        leases = {
            (name, broker_id): tables.lease_of((CLUSTER, address_of(name, broker_id)))
            for name in "ab"
            for broker_id in (0, 1)
        }
        routes = {topic: tables.lookup(topic) for topic in TOPICS}
        return (
            leases,
            {
                topic: (set(route.queues), route.brokers and len(route.brokers))
                for topic, route in routes.items()
                if route
            },
            {name: dict(found.addresses) for name, found in tables.cluster_info().brokers.items()},
        )


@pytest.fixture(autouse=True)
def tiny_slices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with small_slices():
        yield


def small_slices() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(bodies, "SLICED_SIZE_MIN", 0)
    patch.setattr(topic_table, "PIECE_SIZE", 1)

    class Restoring:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            patch.undo()

    return Restoring()


names, ids, connections, topics = st.sampled_from("ab"), st.integers(0, 1), st.integers(1, 3), st.sampled_from(TOPICS)
steps = st.one_of(
    st.tuples(
        st.just("register"),
        connections,
        names,
        ids,
        st.lists(topics, max_size=4, unique=True),
        st.integers(1, 3),
        st.sampled_from([4, 6]),
        st.sampled_from([None, None, True]),
    ),
    st.tuples(
        st.just("register"), connections, st.just("a"), st.just(0), st.just(list(TOPICS)), ids, st.just(6), st.none()
    ),
    st.tuples(st.just("slice"), st.integers(1, 9)),
    st.tuples(st.just("slice"), st.integers(1, 9)),
    st.tuples(st.just("unregister"), connections, names, ids),
    st.tuples(st.just("leave"), connections),
    st.tuples(st.just("wipe"), names),
    st.tuples(st.just("delete"), topics),
)


def do(peers: Peers, number: int, step: tuple[Any, ...]) -> None:
    match step:
        case ("register", connection, name, broker_id, listed, version, perm, acting):
            configs = {topic: TopicConfig(topic=topic, perm=perm) for topic in listed}
            fields = {"broker_id": broker_id, "enable_acting_master": acting}
            peers.ask(number, connection, *registration(name, configs=configs, version=version, **fields))
        case ("unregister", connection, name, broker_id):
            address = address_of(name, broker_id)
            header = UnregisterBroker(broker_name=name, broker_addr=address, cluster_name=CLUSTER, broker_id=broker_id)
            peers.ask(number, connection, header)
        case ("beat", connection, name, broker_id):
            header = BrokerHeartbeat(cluster_name=CLUSTER, broker_addr=address_of(name, broker_id), broker_name=name)
            peers.ask(number, connection, header)
        case ("wipe", name):
            peers.ask(number, 9, WipeWritePerm(broker_name=name))
        case ("delete", topic):
            peers.ask(number, 9, DeleteTopicInNameServer(topic=topic))
        case ("leave", connection):
            peers.leave(number, connection)


@settings(deadline=None, max_examples=max(1, STEPS // STEPS_PER_HISTORY))
@given(st.lists(steps, max_size=STEPS_PER_HISTORY), st.booleans())
def test_slices_end_where_whole_registrations_in_the_order_of_their_answers_do(history: list[Any], deletes: bool):
    sliced, whole = Peers(deletes_missing_topics=deletes), Peers(in_one_go=True, deletes_missing_topics=deletes)
    for number, step in enumerate(history):
        if step[0] == "slice":
            for _ in range(step[1]):
                sliced.service.queue.step()
        else:
            do(sliced, number, step)
    sliced.service.queue.finish()

    for number, _ in sliced.done:
        do(whole, number, history[number])

    assert sliced.done == whole.done
    assert sliced.look() == whole.look()
    assert_in_order_of_arrival(history, [number for number, _ in sliced.done])


def assert_in_order_of_arrival(history: list[Any], order: list[int]) -> None:
    """Only what concerns other brokers overtakes an unfinished registration."""
    assert sorted(order) == [number for number, step in enumerate(history) if step[0] != "slice"]
    for place, number in enumerate(order):
        for later in order[place + 1 :]:
            if later > number:
                continue
            overtaken, overtaking = history[later], history[number]
            assert overtaken[0] == "register"
            distinguishing = {"register": 2, "leave": 1}[overtaking[0]]
            assert overtaking[distinguishing] != overtaken[distinguishing]


def register(peers: Peers, number: int, *, connection: int = 1, version: int = 1, perm: int = 6) -> None:
    """Register all topics, in another zone for each version, so that none of it is recognised from the last one."""
    configs = {topic: TopicConfig(topic=topic, perm=perm) for topic in TOPICS}
    peers.ask(number, connection, *registration("a", configs=configs, version=version, zone_name=f"z{version}"))
    assert len(peers.service.queue) == 1


def test_a_broker_lives_when_all_its_topics_are_there_and_is_answered_then():
    peers = Peers()
    register(peers, 1)
    while peers.service.queue.step():
        is_alive = peers.service.tables.lease_of((CLUSTER, address_of("a"))) is not None
        assert not is_alive or set(peers.service.tables.topics()) == set(TOPICS)
        assert peers.done == []
    assert [(number, reply.code) for number, reply in peers.done] == [(1, 0)]
    assert set(peers.service.tables.topics()) == set(TOPICS)


@pytest.mark.parametrize("slices", range(0, 14, 3))
@pytest.mark.parametrize(
    "end",
    [("unregister", 1, "a", 0), ("unregister", 2, "a", 0), ("leave", 1)],
    ids=["by itself", "by a newer", "close"],
)
def test_whoever_leaves_during_its_registration_is_gone_11043(end: tuple[Any, ...], slices: int):
    peers = Peers()
    register(peers, 1)
    for _ in range(slices):
        peers.service.queue.step()
    do(peers, 2, end)
    assert [number for number, _ in peers.done] == [1, 2]
    assert peers.service.tables.topics() == ()


@pytest.mark.parametrize("slices", range(0, 14, 3))
@pytest.mark.parametrize("late", [("unregister", 1, "a", 0), ("leave", 1)], ids=["unregister", "close"])
def test_what_comes_late_through_the_old_connection_spares_a_registration_in_slices_11043(
    late: tuple[Any, ...], slices: int
):
    peers = Peers()
    register(peers, 1, connection=1)
    peers.service.queue.finish()
    register(peers, 2, connection=2, version=2)
    for _ in range(slices):
        peers.service.queue.step()
    do(peers, 3, late)
    peers.service.queue.finish()
    assert set(peers.service.tables.topics()) == set(TOPICS)


@pytest.mark.parametrize("slices", range(0, 14, 3))
def test_a_heartbeat_during_the_slices_counts(slices: int):
    peers = Peers()
    register(peers, 1)
    peers.service.queue.finish()
    register(peers, 2, version=2)
    for _ in range(slices):
        peers.service.queue.step()
    do(peers, 3, ("beat", 2, "a", 0))
    peers.service.queue.finish()
    lease = peers.service.tables.lease_of((CLUSTER, address_of("a")))
    assert (lease.renewed_at_ms, lease.owner, lease.data_version.counter) == (1_003, 2, 2)


def test_a_damaged_registration_is_refused_before_it_touches_anything():
    peers = Peers()
    header, body = registration("a", *TOPICS, body_crc32=0)
    peers.ask(1, 1, header, body.replace(b'"t3":{"attributes":{}', b'"t3":{"attributes":!!'))
    peers.service.queue.finish()
    assert [(number, reply.code) for number, reply in peers.done] == [(1, 1)]
    assert peers.service.tables.topics() == ()


def test_every_slice_outdates_the_answers_that_it_changes():
    peers = Peers()
    answers = peers.service.routes
    register(peers, 1)
    peers.service.queue.finish()
    register(peers, 2, version=2, perm=4)
    perms: list[tuple[int, ...]] = []
    more = True
    while more:
        routes = [decode_route(answers.get(topic, True) or b"") for topic in TOPICS]
        assert routes == [peers.service.tables.lookup(topic) for topic in TOPICS]
        perms.append(tuple(route.queues[0].perm for route in routes))
        more = peers.service.queue.step()
    assert {(6, 6, 6, 6), (4, 6, 6, 6), (4, 4, 4, 6), (4, 4, 4, 4)} <= set(perms)


def test_an_error_of_ours_ends_one_registration_alone(caplog: pytest.LogCaptureFixture):
    peers = Peers()
    remember = peers.service.bodies.remember

    def failing(key: BrokerKey, *args: Any, **kwargs: Any) -> None:
        if key.address == address_of("a"):
            raise RuntimeError("ours")
        remember(key, *args, **kwargs)

    peers.service.bodies.remember = failing  # type: ignore[method-assign]
    configs = {topic: TopicConfig(topic=topic) for topic in TOPICS}
    for number, name in enumerate("ab"):
        peers.ask(number, number, *registration(name, configs=configs))
    peers.service.queue.finish()
    assert [(number, reply.code, reply.remark) for number, reply in peers.done] == [
        (0, 1, "RuntimeError: ours"),
        (1, 0, None),
    ]
    assert "the registration of a failed" in caplog.text


async def test_others_are_served_between_the_slices(tmp_path: Path):
    names = [f"topic-{number}" for number in range(300)]
    async with asking(tmp_path) as asker:
        giant, served = ConnectionPool(), 0
        await asker.register("small", "T1", "T2")
        header, body = registration("giant", *names)
        registering = asyncio.ensure_future(giant.request(asker.server.address, header, body))
        await until(lambda: bool(asker.server.service.queue))
        while not registering.done():
            assert (await asker.ask(GetRouteInfo(topic="T1"))).code == 0
            served += 1
        assert served > 5
        assert (await registering).code == 0
        for name in names[:: len(names) - 1]:
            route = decode_route((await asker.ask(GetRouteInfo(topic=name))).body)
            assert [found.broker_name for found in route.brokers] == ["giant"]
        assert not asker.server.service.queue
        await giant.close()


async def test_a_giant_whose_connection_closes_leaves_nothing(tmp_path: Path):
    async with asking(tmp_path) as asker:
        service = asker.server.service
        giant = ConnectionPool()
        header, body = registration("giant", *(f"topic-{number}" for number in range(300)))
        registering = asyncio.ensure_future(giant.request(asker.server.address, header, body))
        await until(lambda: bool(service.queue))
        await giant.close()
        await asyncio.gather(registering, return_exceptions=True)
        await until(lambda: not service.queue and not service.tables.topics())
        assert service.journal.events()[0]["cause"] == Cause.CONNECTION_CLOSED


PAGE = Path(__file__).parents[4] / "docs" / "explain" / "registrations.md"
VALUES = ["routing/values.py", "routing/group.py", "routing/events.py"]
LISTENERS = ["cache/routes.py", "cache/route_queries.py", "monitoring/journal.py", "service.py"]
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
        peers.service.queue.finish()
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
