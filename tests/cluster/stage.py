"""The stage of a scenario: its pace, its cast, and what was found, with the bound that each figure has to keep."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cluster.clients import JavaClientPair, OurClientPair
from cluster.lab import lab
from cluster.world import Load, World, create_topic, eventually

Cast = Literal["ours", "java"]
"""Whose broker-b and whose clients: ours or Java's. The NameServers are always ours."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take: the true defaults of the servers and clients, or settings that keep a test short.

    Args:
        name_server: settings of every NameServer.
        lease: settings of a broker that only registers, on a host of its own.
        heartbeats: settings of a broker that renews its lease by heartbeats.
        silence_ms: how long such a broker without heartbeats, with heartbeats, stays known after its last word.
        poll_ms: how often clients ask for routes.
        send_pause_s: between two sends of the load, by cast; every message to a Java client is a line to its JVM.
        calm_s: after this long without a change clients ask no more often than every `poll_ms`.
        outage_s: how long all NameServers are down.
        cut_s: how long a NameServer is cut off.
        pause_lease_ms: leases of the brokers of a NameServer that pauses.
        timeout_s: how long anything may take before a scenario gives up.
    """

    name_server: Mapping[str, Any]
    lease: Mapping[str, Any]
    heartbeats: Mapping[str, Any]
    silence_ms: tuple[int, int]
    poll_ms: int
    send_pause_s: Mapping[Cast, float]
    calm_s: float
    outage_s: float
    cut_s: float
    pause_lease_ms: int
    timeout_s: float


QUICK_LEASE = {"heartbeatEnable": True, "brokerHeartbeatInterval": 200, "brokerNotActiveTimeoutMillis": 1500}
QUICK = Pace(
    name_server={"scanNotActiveBrokerInterval": 200},
    lease=QUICK_LEASE,
    heartbeats=QUICK_LEASE,
    silence_ms=(1_700, 1_700),
    poll_ms=1_000,
    send_pause_s={"ours": 0.001, "java": 0.01},
    calm_s=0,
    outage_s=0,
    cut_s=0,
    pause_lease_ms=1_500,
    timeout_s=60,
)
DEFAULTS = Pace(
    name_server={},
    lease={},
    heartbeats={"heartbeatEnable": True},
    silence_ms=(125_000, 15_000),
    poll_ms=30_000,
    send_pause_s={"ours": 0.01, "java": 0.01},
    calm_s=20,
    outage_s=90,
    cut_s=180,
    pause_lease_ms=10_000,
    timeout_s=300,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure or outcome of a scenario.

    Args:
        bound: what it has to be, in words; empty: told for its own sake.
        is_time: a duration, which says something about this machine at this hour, too.
    """

    what: str
    found: Any
    unit: str = ""
    bound: str = ""
    is_reached: bool = True
    is_time: bool = False


@dataclass(slots=True)
class Stage:
    """Where one scenario is played, and what was found so far."""

    folder: Path
    pace: Pace
    cast: Cast = "ours"
    say: Callable[[str], None] = lambda _: None
    findings: list[Finding] = field(default_factory=list)

    @property
    def refill_ms(self) -> int:
        """How soon a NameServer that answers again is full: our brokers come back by themselves, Java's register every 30 s."""
        return 1_000 if self.cast == "ours" else 31_000

    @contextmanager
    def timed(self, what: str, *, at_most_ms: int) -> Iterator[None]:
        """Note how long the block takes."""
        if at_most_ms > 10_000:
            self.say(f"{what}: at most {at_most_ms / 1000:.0f} s …")
        began = time.monotonic()
        yield
        self.took(what, (time.monotonic() - began) * 1000, at_most_ms=at_most_ms)

    def took(self, what: str, found_ms: float, *, at_most_ms: int) -> None:
        bound = f"<= {at_most_ms:,} ms"
        self._note(Finding(what, round(found_ms), "ms", bound, found_ms <= at_most_ms, is_time=True))

    def expect(self, what: str, found: Any, *wanted: Any) -> None:
        """Note an outcome that has to be one of `wanted`."""
        self._note(Finding(what, found, "", f"= {' or '.join(map(_plain, wanted))}", found in wanted))

    def note(self, what: str, found: Any, unit: str = "") -> None:
        """Note something that has no bound."""
        self._note(Finding(what, found, unit))

    def _note(self, finding: Finding) -> None:
        self.findings.append(finding)
        self.say(describe(finding))

    async def until(self, look: Callable[[], Awaitable[Any]], what: str) -> Any:
        return await eventually(look, what, self.pace.timeout_s)

    @asynccontextmanager
    async def cluster(
        self,
        *,
        name_servers: Sequence[str] = ("ns1", "ns2", "ns3"),
        brokers: Sequence[str] = ("broker-a", "broker-b"),
        spare: Sequence[str] = (),
        has_hosts: bool = False,
        **settings: Mapping[str, Any],
    ) -> AsyncIterator[World]:
        """Start a cluster with the topic on every broker, and end it afterwards.

        Args:
            spare: brokers that the scenario starts later.
            has_hosts: every server on a host of its own; else all on loopback.
            settings: of brokers by name, with `_` for `-`.
        """
        names = (*name_servers, *brokers, *spare)
        with lab(*names) if has_hosts else nullcontext() as hosts:
            world = World(self.folder, hosts, self.pace.name_server)
            try:
                for name in name_servers:
                    await world.start_name_server(name)
                for name in brokers:
                    if self.cast == "java" and name == "broker-b":
                        await world.start_java_broker(name)
                    else:
                        lease = self.pace.lease if has_hosts else {}
                        await world.start_broker(name, **settings.get(name.replace("-", "_"), lease))
                await create_topic(world)
                yield world
            finally:
                await world.close()

    def load(self, cluster: World) -> AbstractAsyncContextManager[Load]:
        """Keep a producer and a consumer busy inside."""
        make = OurClientPair if self.cast == "ours" else JavaClientPair
        clients = make(self.folder / "clients", cluster.name_server_list, self.pace.poll_ms)
        return Load(clients, self.pace.send_pause_s[self.cast], self.pace.timeout_s).running()


def describe(finding: Finding) -> str:
    """Return a finding as a line for people."""
    verdict = f" ({finding.bound}: {'reached' if finding.is_reached else 'MISSED'})" if finding.bound else ""
    return f"{finding.what}: {text_of(finding)}{verdict}"


def text_of(finding: Finding) -> str:
    """Return what was found, with its unit."""
    return f"{_plain(finding.found)} {finding.unit}".rstrip()


def _plain(value: Any) -> str:
    """Return a value as people write it: yes and no, thousands, lists without brackets."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | set):
        return ", ".join(_plain(item) for item in value)
    return str(value)
