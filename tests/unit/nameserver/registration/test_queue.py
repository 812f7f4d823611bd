"""Claims about registrations that wait, and about those that are entered in slices.

Whatever happens between two slices, it is as if each registration had been entered whole. A late request of an old
connection spares a newer registration: apache/rocketmq#11043.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import Rejected
from orbitmq.model.topic import TopicConfig
from orbitmq.nameserver.registration.queue import EVERYTHING, JOB_SIZE_MIN, PendingChange, RegistrationQueue
from orbitmq.nameserver.routing.events import Cause
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies import registration as bodies
from orbitmq.wire.bodies import topic_table
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.headers import BrokerHeartbeat, DeleteTopicInNameServer, GetRouteInfo, UnregisterBroker, WipeWritePerm
from orbitmq.wire.slices import Slices
from seeds import examples
from waiting import until

from ..support import CLUSTER, Asker, address_of, asking, registration
from .peers import TOPICS, Peers, drain

# The long form is `ORBITMQ_MODEL_STEPS=1000000`.
STEPS = int(os.environ.get("ORBITMQ_MODEL_STEPS", examples(6000)))
STEPS_PER_HISTORY = 25


def job(log: list[str], name: str, size: int = 1, *, connection_id: int = 1) -> PendingChange:
    """Return a job of two slices that write down when they are done."""

    def slices() -> Slices[None]:
        log.append(name)
        yield
        log.append(f"{name} done")

    return PendingChange(connection_id, size, frozenset([name]), slices())


@pytest.fixture
def peers() -> Peers:
    return Peers()


def test_who_comes_when_too_many_bytes_wait_is_told_that_the_server_is_busy():
    log: list[str] = []
    queue = RegistrationQueue(size_max=2 * JOB_SIZE_MIN)
    for _ in range(3):
        queue.refuse_if_full()
        queue.append(job(log, "a", JOB_SIZE_MIN + 1))
        queue.refuse_if_full()
        queue.append(job(log, "b"))
        with pytest.raises(Rejected) as refused:
            queue.refuse_if_full()
        assert refused.value.code == 2
        drain(queue)
    assert log == ["a", "a done", "b", "b done"] * 3


def test_the_runner_of_slices_is_woken_once_for_each_time_there_is_work():
    log: list[str] = []
    queue = RegistrationQueue(lambda: log.append("woken"))
    queue.append(job(log, "a"))
    queue.append(job(log, "b"))
    assert [queue.step() for _ in range(3)] == [True] * 3  # awake, and one is left
    queue.append(job(log, "c"))
    assert log.count("woken") == 1
    drain(queue)
    queue.append(job(log, "d"))
    assert log.count("woken") == 2


def test_a_step_is_one_slice_of_the_oldest():
    log: list[str] = []
    queue = RegistrationQueue()
    assert queue.step() is False
    queue.append(job(log, "a"))
    queue.append(job(log, "b"))
    assert [queue.step() for _ in range(4)] == [True, True, True, False]
    assert log == ["a", "a done", "b", "b done"]


@each_case(({"b"}, True), ({"a", "x"}, True), ({"x"}, False), (set(), False))
def test_what_concerns_the_same_broker_waits(concerns: set[str], waits: bool):
    queue = RegistrationQueue()
    queue.append(job([], "a"))
    queue.append(job([], "b"))
    assert queue.has_before(frozenset(concerns)) is waits


def test_what_concerns_a_broker_twice_waits_until_both_are_done():
    queue = RegistrationQueue()
    for _ in range(2):
        queue.append(job([], "a"))
    for _ in range(4):
        assert queue.has_before(frozenset("a"))
        queue.step()
    assert not queue.has_before(frozenset("a"))


def test_what_concerns_everything_waits_for_all_and_all_wait_for_it():
    queue = RegistrationQueue()
    assert not queue.has_before(EVERYTHING)
    queue.append(job([], "a"))
    assert queue.has_before(EVERYTHING)
    queue.append(job([], "")._replace(concerns=EVERYTHING))
    assert queue.has_before(frozenset("b"))
    drain(queue)
    assert not queue.has_before(frozenset("b"))


def test_what_a_connections_changes_concern_is_known_until_they_are_done():
    queue = RegistrationQueue()
    queue.append(job([], "a", connection_id=7))
    queue.append(job([], "b", connection_id=7))
    assert (queue.concerns_from(7), queue.concerns_from(1)) == (frozenset("ab"), frozenset())
    drain(queue)
    assert queue.concerns_from(7) == frozenset()


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
    history = with_fresh_connections(history)
    sliced, whole = Peers(deletes_missing_topics=deletes), Peers(in_one_go=True, deletes_missing_topics=deletes)
    for number, step in enumerate(history):
        if step[0] == "slice":
            for _ in range(step[1]):
                sliced.service.queue.step()
        else:
            do(sliced, number, step)
    drain(sliced.service.queue)

    for number, _ in sliced.done:
        do(whole, number, history[number])

    assert sliced.done == whole.done
    assert sliced.look() == whole.look()
    assert_in_order_of_arrival(history, [number for number, _ in sliced.done])


def with_fresh_connections(history: list[Any]) -> list[Any]:
    """Give requests of a connection that is gone another one: numbers are never used twice."""
    left = dict.fromkeys((1, 2, 3), 0)
    fresh = []
    for what, *rest in history:
        if what in ("register", "unregister", "leave"):
            connection, rest[0] = rest[0], rest[0] + 10 * left[rest[0]]
            left[connection] += what == "leave"
        fresh.append((what, *rest))
    return fresh


def assert_in_order_of_arrival(history: list[Any], order: list[int]) -> None:
    """Only what concerns other brokers overtakes an unfinished registration."""
    assert sorted(order) == [number for number, step in enumerate(history) if step[0] != "slice"]
    for place, number in enumerate(order):
        for later in order[place + 1 :]:
            if later > number:
                continue
            overtaken, overtaking = history[later], history[number]
            names = [step[NAME_AT[step[0]]] for step in (overtaken, overtaking) if step[0] in NAME_AT]
            assert len(set(names)) == len(names), (overtaken, overtaking)
            if "leave" in (overtaken[0], overtaking[0]):
                assert overtaken[1] != overtaking[1]


NAME_AT = {"register": 2, "unregister": 2, "wipe": 1}
"""Where the broker name stands in a step."""


def register(peers: Peers, number: int, *, connection: int = 1, version: int = 1, perm: int = 6) -> None:
    """Register all topics, in another zone for each version, so that none of it is recognised from the last one."""
    configs = {topic: TopicConfig(topic=topic, perm=perm) for topic in TOPICS}
    peers.ask(number, connection, *registration("a", configs=configs, version=version, zone_name=f"z{version}"))
    assert len(peers.service.queue.jobs) == 1


def test_a_broker_lives_when_all_its_topics_are_there_and_is_answered_then(peers: Peers):
    register(peers, 1)
    while peers.service.queue.step():
        is_alive = peers.service.tables.lease_of(BrokerKey(CLUSTER, "a", address_of("a"))) is not None
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
def test_a_broker_that_leaves_during_its_registration_is_gone_11043(end: tuple[Any, ...], slices: int, peers: Peers):
    register(peers, 1)
    for _ in range(slices):
        peers.service.queue.step()
    do(peers, 2, end)
    drain(peers.service.queue)
    assert [number for number, _ in peers.done] == [1, 2]
    assert peers.service.tables.topics() == ()


@pytest.mark.parametrize("slices", range(0, 14, 3))
@pytest.mark.parametrize("late", [("unregister", 1, "a", 0), ("leave", 1)], ids=["unregister", "close"])
def test_what_comes_late_through_the_old_connection_spares_a_registration_in_slices_11043(
    late: tuple[Any, ...], slices: int, peers: Peers
):
    register(peers, 1, connection=1)
    drain(peers.service.queue)
    register(peers, 2, connection=2, version=2)
    for _ in range(slices):
        peers.service.queue.step()
    do(peers, 3, late)
    drain(peers.service.queue)
    assert set(peers.service.tables.topics()) == set(TOPICS)


@pytest.mark.parametrize("slices", range(0, 14, 3))
def test_a_heartbeat_during_the_slices_counts(slices: int, peers: Peers):
    register(peers, 1)
    drain(peers.service.queue)
    register(peers, 2, version=2)
    for _ in range(slices):
        peers.service.queue.step()
    do(peers, 3, ("beat", 2, "a", 0))
    drain(peers.service.queue)
    lease = peers.service.tables.lease_of(BrokerKey(CLUSTER, "a", address_of("a")))
    assert (lease.renewed_at_ms, lease.owners, lease.data_version.counter) == (1_003, (1,), 2)


def test_a_damaged_registration_is_refused_before_it_touches_anything(peers: Peers):
    header, body = registration("a", *TOPICS, body_crc32=0)
    peers.ask(1, 1, header, body.replace(b'"t3":{"attributes":{}', b'"t3":{"attributes":!!'))
    drain(peers.service.queue)
    assert [(number, reply.code) for number, reply in peers.done] == [(1, 1)]
    assert peers.service.tables.topics() == ()


def test_every_slice_outdates_the_answers_that_it_changes(peers: Peers):
    answers = peers.service.routes
    register(peers, 1)
    drain(peers.service.queue)
    register(peers, 2, version=2, perm=4)
    perms: list[tuple[int, ...]] = []
    more = True
    while more:
        routes = [decode_route(answers.get(topic, True) or b"") for topic in TOPICS]
        assert routes == [peers.service.tables.lookup(topic) for topic in TOPICS]
        perms.append(tuple(route.queues[0].perm for route in routes))
        more = peers.service.queue.step()
    assert {(6, 6, 6, 6), (4, 6, 6, 6), (4, 4, 4, 6), (4, 4, 4, 4)} <= set(perms)


def test_an_error_of_ours_ends_one_registration_alone(caplog: pytest.LogCaptureFixture, peers: Peers):
    remember = peers.service.bodies.remember

    def failing(key: BrokerKey, *args: Any, **kwargs: Any) -> None:
        if key.address == address_of("a"):
            raise RuntimeError("ours")
        remember(key, *args, **kwargs)

    peers.service.bodies.remember = failing  # type: ignore[method-assign]
    configs = {topic: TopicConfig(topic=topic) for topic in TOPICS}
    for number, name in enumerate("ab"):
        peers.ask(number, number, *registration(name, configs=configs))
    drain(peers.service.queue)
    assert [(number, reply.code, reply.remark) for number, reply in peers.done] == [
        (0, 1, "RuntimeError: ours"),
        (1, 0, None),
    ]
    assert "the request 103 of x:0 failed" in caplog.text


@pytest.mark.real
async def test_others_are_served_between_the_slices(tmp_path: Path):
    names = [f"topic-{number}" for number in range(300)]
    async with asking(tmp_path) as asker:
        giant, served = ConnectionPool(), 0
        await asker.register("small", "T1", "T2")
        header, body = registration("giant", *names)
        registering = asyncio.ensure_future(giant.request(asker.server.address, header, body))
        await until(lambda: bool(asker.server.service.queue.jobs))
        while not registering.done():
            assert (await asker.ask(GetRouteInfo(topic="T1"))).code == 0
            served += 1
        assert served > 5
        assert (await registering).code == 0
        for name in names[:: len(names) - 1]:
            route = decode_route((await asker.ask(GetRouteInfo(topic=name))).body)
            assert [found.broker_name for found in route.brokers] == ["giant"]
        assert not asker.server.service.queue.jobs
        await giant.close()


@pytest.mark.real
async def test_a_giant_whose_connection_closes_leaves_nothing(asker: Asker):
    service = asker.server.service
    giant = ConnectionPool()
    header, body = registration("giant", *(f"topic-{number}" for number in range(300)))
    registering = asyncio.ensure_future(giant.request(asker.server.address, header, body))
    await until(lambda: bool(service.queue.jobs))
    await giant.close()
    await asyncio.gather(registering, return_exceptions=True)
    await until(lambda: not service.queue.jobs and not service.tables.topics())
    assert service.route_history.events()[0]["cause"] == Cause.CONNECTION_CLOSED


@each_case((2 * JOB_SIZE_MIN, True), (2 * JOB_SIZE_MIN + 1, False))
def test_a_queue_is_full_when_as_many_bytes_wait_as_may(size_max: int, is_full: bool):
    queue = RegistrationQueue(size_max=size_max)
    for name in "ab":
        queue.append(job([], name))
    if is_full:
        with pytest.raises(Rejected):
            queue.refuse_if_full()
    else:
        queue.refuse_if_full()
