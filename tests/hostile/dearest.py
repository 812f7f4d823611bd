"""The dearest request of each code: the largest body that is read, or the question with the longest answer.

They are asked of a NameServer with a giant broker and thousands of small ones. What counts is the longest turn of its
event loop, in CPU time of its thread: what other processes take does not.
"""

from __future__ import annotations

import gc
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from hostile.figure import Figure, Size
from hostile.requests import whole_header
from hostile.served import Link, Served, giant, leaving_of, serving
from orbitmq.model.route import QueueData, TopicRoute
from orbitmq.nameserver.handlers import handlers
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.headers import (
    AddWritePerm,
    DeleteTopicInNameServer,
    GetBrokerMemberGroup,
    GetRouteDifference,
    GetRouteHistory,
    GetRouteInfo,
    GetTopicsByCluster,
    PutKvConfig,
    RegisterTopicInNameServer,
    WipeWritePerm,
)

LIMIT_MS = 20.0
TOPICS, BROKERS = 85_000, 1_000
TRIES = 3


class Cost(NamedTuple):
    """What one request took: its code, the bytes of its body, and the longest turn in milliseconds."""

    code: int
    body_size: int
    longest_ms: float


def dearest_requests(size: Size) -> Figure:
    """Measure the dearest request of each code."""
    costs = measure(size.of(TOPICS, 100), size.of(BROKERS, 10), TRIES if size.share >= 1 else 1)
    dear = [cost for cost in costs if cost.longest_ms >= LIMIT_MS]
    table = ", ".join(f"{code} {longest_ms:.1f}" for code, _, longest_ms in costs)
    return Figure(
        asked=f"each below {LIMIT_MS:.0f} ms on the loop, with a broker of {TOPICS} topics and {BROKERS} others",
        measured=f"ms by code: {table}",
        reached=not dear or size.share < 1,
    )


def measure(topics: int, brokers: int, tries: int) -> list[Cost]:
    """Ask for everything once and more; return the least of each code's longest turns."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        served = stack.enter_context(serving(Path(folder)))
        link = stack.enter_context(served.link())
        for number in range(brokers):
            link.register(f"broker-{number}", *(f"everywhere-{attempt}" for attempt in range(max(2, tries))))
        gc.collect()
        gc.disable()
        stack.callback(gc.enable)
        found: dict[int, Cost] = {}
        for attempt in range(tries):
            for code in handlers.codes:
                # A code that changes the giant finds it as it was.
                assert link.ask(*giant("giant", topics, version=2 * attempt)).code == 0
                header, body = dearest(code, topics, brokers, 2 * attempt + 1)
                cost = Cost(code, len(body), _longest_ms(served, link, header, body))
                found[code] = min(cost, found.get(code, cost), key=lambda one: one.longest_ms)
        return list(found.values())


def dearest(code: int, topics: int, brokers: int, version: int) -> tuple[object, bytes]:
    """Return the dearest request of a code that is known."""
    limit, everywhere = handlers.body_sizes[code], f"everywhere-{version // 2}"
    names = [f"broker-{number}" for number in range(brokers)]
    queues = [QueueData(broker_name=name, read_queue_count=8, write_queue_count=8, perm=6) for name in names]
    route = encode_route(TopicRoute(queues=tuple(queues[: limit // 120])))
    known: dict[int, tuple[object, bytes]] = {
        100: (PutKvConfig(namespace="n", key="k", value="v" * 65_536), b""),
        103: giant("giant", topics, version=version),
        104: (leaving_of("giant"), b""),
        105: (GetRouteInfo(topic=everywhere), b""),
        205: (WipeWritePerm(broker_name="giant"), b""),
        216: (DeleteTopicInNameServer(topic=everywhere), b""),
        217: (RegisterTopicInNameServer(topic=f"new-{version}"), route),
        224: (GetTopicsByCluster(cluster="c"), b""),
        318: (whole_header(318), b"a=1\n" * (limit // 4)),
        327: (AddWritePerm(broker_name="giant"), b""),
        901: (GetBrokerMemberGroup(cluster_name="c", broker_name="giant"), b""),
        30002: (GetRouteHistory(), b""),
        30003: (GetRouteDifference(at_ms=0), b""),
    }
    return known.get(code) or (whole_header(code), b"[" * limit)


def _longest_ms(served: Served, link: Link, header: object, body: bytes) -> float:
    gc.collect()
    with served.turns() as turns:
        link.ask(header, body)
    return 1_000 * turns.longest_s
