"""No request keeps the loop from all others: what is large is taken in slices, or refused.

A loop's turn is measured in CPU time of its thread, and compared with another turn on the same machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from hostile.served import Link, Served, giant, leaving_of, serving
from orbitmq.model.route import QueueData, TopicRoute
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.headers import DeleteTopicInNameServer, GetHealth, RegisterTopicInNameServer
from orbitmq.wire.headers.nameserver import AddWritePerm, WipeWritePerm
from unit.nameserver.support import registration
from waiting import wait_for

TOPICS = 60_000
"""Of a giant broker: two thirds of what fits into a frame, as Java writes them."""
FEW_TOPICS = 8_000
"""Taken in in a few slices: the longest turn of that is what others may be compared with."""
MANY_TIMES = 4
"""So much longer than its reference nothing may take that is done in slices; machines are not that uneven."""

pytestmark = [pytest.mark.usefixtures("without_collections"), pytest.mark.proof]


def slice_s(served: Served) -> float:
    """Measure the longest turn that it takes to register a few thousand topics, three times: a core's speed wanders."""
    with served.link() as link, served.turns() as turns:
        for number in range(3):
            assert link.ask(*giant(f"reference-{number}", FEW_TOPICS)).code == 0
    return turns.longest_s


def end(served: Served, broker: Link, watcher: Link) -> None:
    broker.close()


def leave(served: Served, broker: Link, watcher: Link) -> None:
    broker.ask(leaving_of("giant"))


ENDS: dict[str, Callable[[Served, Link, Link], None]] = {"104": leave, "the connection's end": end}


@pytest.mark.parametrize("how", ENDS)
def test_a_giant_broker_leaves_in_slices(how: str, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as broker, served.link() as watcher:
        reference_s = slice_s(served)
        assert broker.ask(*giant("giant", TOPICS)).code == 0
        with served.turns() as turns:
            ENDS[how](served, broker, watcher)
            wait_for(lambda: "giant" not in watcher.brokers(), "the giant leaves")
        assert turns.longest_s < MANY_TIMES * reference_s


def test_a_giant_broker_whose_lease_ends_leaves_in_slices(tmp_path: Path) -> None:
    with serving(tmp_path, scan_not_active_broker_interval=20) as served, served.link() as broker:
        reference_s = slice_s(served)
        with served.link() as watcher:
            assert broker.ask(*giant("giant", TOPICS, heartbeat_timeout_millis=3_000)).code == 0
            with served.turns() as turns:
                wait_for(lambda: "giant" not in watcher.brokers(), "the giant leaves")
        assert turns.longest_s < MANY_TIMES * reference_s


@pytest.mark.parametrize("header", [WipeWritePerm, AddWritePerm])
def test_a_giant_brokers_permissions_change_in_slices(header: type, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as broker, served.link() as operator:
        reference_s = slice_s(served)
        assert broker.ask(*giant("giant", TOPICS)).code == 0
        if header is AddWritePerm:
            operator.ask(WipeWritePerm(broker_name="giant"))
        with served.turns() as turns:
            assert operator.ask(header(broker_name="giant")).code == 0
        assert turns.longest_s < MANY_TIMES * reference_s


QUEUE = QueueData(broker_name="small", read_queue_count=1, write_queue_count=1, perm=6)
STRANGERS = {
    "104": (leaving_of("nobody"), b""),
    "205": (WipeWritePerm(broker_name="nobody"), b""),
    "216": (DeleteTopicInNameServer(topic="nothing"), b""),
    "217": (RegisterTopicInNameServer(topic="something"), encode_route(TopicRoute(queues=(QUEUE,)))),
}


@pytest.mark.parametrize("code", STRANGERS)
def test_a_change_that_concerns_no_giant_does_not_finish_the_giants_first(code: str, tmp_path: Path) -> None:
    with ExitStack() as links, serving(tmp_path) as served, served.link() as small, served.link() as stranger:
        small.register("small")
        with served.turns() as alone:
            register_giants(served, "first", links)
        with served.turns() as disturbed, asking_again_and_again(stranger, *STRANGERS[code]):
            register_giants(served, "second", links)
        assert disturbed.longest_s < MANY_TIMES * alone.longest_s


def test_more_giants_than_may_wait_together_are_still_taken_in_slices(tmp_path: Path) -> None:
    with ExitStack() as links, serving(tmp_path) as served:
        with served.turns() as few:
            register_giants(served, "first", links)
        with served.turns() as many:
            register_giants(served, "second", links, count=9)
        assert many.longest_s < MANY_TIMES * few.longest_s


def register_giants(served: Served, name: str, links: ExitStack, count: int = 3) -> None:
    """Let several giants register together."""
    asked = []
    for number in range(count):
        link = links.enter_context(served.link())
        asked.append((link, link.send(*giant(f"{name}-{number}", TOPICS))))
    for link, opaque in asked:
        assert link.receive(opaque).code == 0


@contextmanager
def asking_again_and_again(link: Link, header: object, body: bytes) -> Iterator[None]:
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.wait(0.02):
            assert link.ask(header, body).code == 0

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_health_costs_the_same_however_often_it_was_asked(tmp_path: Path) -> None:
    def ask(count: int) -> float:
        began_s = served.apply(time.thread_time)
        for _ in range(count):
            assert link.ask(GetHealth()).code == 0
        return served.apply(time.thread_time) - began_s

    with serving(tmp_path) as served, served.link() as link:
        # The least of several: what else the machine does makes a turn dearer, never cheaper.
        ask(100)
        first_s = min(ask(200) for _ in range(5))
        ask(4_000)
        assert min(ask(200) for _ in range(5)) < 1.5 * first_s


def test_a_broker_leaves_in_its_own_time_however_many_static_topics_others_have(tmp_path: Path) -> None:
    """Compared with itself: what it costs next to 40 brokers' mappings, and alone."""
    header, body = registration("a", "T1", "T2", body_crc32=0)
    document = orjson.loads(body)
    mappings = {f"static-{number}": {} for number in range(9_000)}
    document["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = mappings
    body = orjson.dumps(document)

    def leaving_s(served: Served, link: Link) -> float:
        longest = []
        for _ in range(3):
            link.register("b")
            with served.turns() as turns:
                assert link.ask(leaving_of("b")).code == 0
            longest.append(turns.longest_s)
        return min(longest)

    with serving(tmp_path) as served, served.link() as link:
        alone_s = leaving_s(served, link)
        for number in range(40):
            named = replace(header, broker_name=f"static-{number}", broker_addr=f"static-{number}:10911")
            assert link.ask(named, body).code == 0
        assert leaving_s(served, link) < max(20 * alone_s, 0.02)
