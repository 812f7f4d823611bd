"""Outages that operators fear of NameServers, played with real processes and clients under load.

Each scenario is a claim and its play. The tests play all of them at a short pace and look at the outcomes; `python -m
cluster` plays them with the true defaults and holds every duration against its bound.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from cluster.stage import Cast, Stage
from cluster.world import Load, World, create_topic
from hostile.served import Child, Heartbeats
from orbitmq.admin.monitoring import ask_history, take_snapshot
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.headers import PutKvConfig, WipeWritePerm


@dataclass(frozen=True, slots=True)
class Scenario:
    """A claim, how it is played, and by whom it can be."""

    name: str
    play: Callable[[Stage], Awaitable[None]]
    has_hosts: bool
    casts: tuple[Cast, ...]

    @property
    def title(self) -> str:
        """The claim as a sentence."""
        return self.name.replace("_", " ")


SCENARIOS: list[Scenario] = []
SCAN_SLACK_MS = 6_000
"""A lease's end is noticed by the next scan, within 5 s."""


def scenario(
    *casts: Cast, has_hosts: bool = False
) -> Callable[[Callable[[Stage], Awaitable[None]]], Callable[[Stage], Awaitable[None]]]:
    """List a scenario under its function's name; `has_hosts` says that it needs network namespaces."""

    def add(play: Callable[[Stage], Awaitable[None]]) -> Callable[[Stage], Awaitable[None]]:
        SCENARIOS.append(Scenario(play.__name__, play, has_hosts, casts or ("ours",)))
        return play

    return add


@scenario()
async def one_name_server_down_and_back_again_goes_unnoticed(stage: Stage) -> None:
    async with stage.cluster() as cluster, stage.load(cluster) as load:
        for name in cluster.name_servers:
            await cluster.name_servers[name].kill()
            await load.more()
            await cluster.start_name_server(name)
            with stage.timed(f"{name} answers again: full and equal to the others", at_most_ms=stage.refill_ms):
                await stage.until(cluster.all_equal_and_full, "full routes again")
        await all_received(stage, load)
        none_failed(stage, load)


@scenario("ours", "java")
async def with_all_name_servers_down_running_clients_go_on_and_afterwards_nothing_has_to_be_done(stage: Stage) -> None:
    async with stage.cluster() as cluster, stage.load(cluster) as load:
        before = await stage.until(cluster.all_equal_and_full, "all NameServers equal")
        for server in cluster.name_servers.values():
            await server.kill()
        sent_before, began = len(load.sent), time.monotonic()
        await asyncio.sleep(stage.pace.outage_s)
        await load.more(200)
        stage.note("no NameServer for", round(time.monotonic() - began), "s")
        stage.note("messages sent meanwhile", len(load.sent) - sent_before)
        stage.note("longest pause between two of them", round(load.longest_pause_ms(sent_before)), "ms")
        none_failed(stage, load)
        for name in cluster.name_servers:
            await cluster.start_name_server(name)  # empty: nothing was on its disk
        with stage.timed("the last NameServer answers again: all full and equal", at_most_ms=stage.refill_ms):
            after = await stage.until(cluster.all_equal_and_full, "full routes again")
        stage.expect("route digest is the one from before", after == before, True)
        await load.more()
        await all_received(stage, load)
        none_failed(stage, load)


@scenario()
async def a_name_server_that_is_added_later_is_filled_by_brokers_that_start_with_it(stage: Stage) -> None:
    async with stage.cluster(name_servers=["ns1"]) as cluster:
        await cluster.start_name_server("ns2")
        stage.expect(
            "the new NameServer knows broker-a before that starts again", await cluster.knows("ns2", "broker-a"), False
        )
        for name in ("broker-a", "broker-b"):
            await cluster.brokers[name].stop()
            await cluster.restart_broker(name)
        with stage.timed(
            "the last broker is ready: the new NameServer as full as the old one", at_most_ms=stage.refill_ms
        ):
            await stage.until(cluster.all_equal_and_full, "the new NameServer as full as the old one")


@scenario("ours", "java")
async def a_broker_that_stops_cleanly_leaves_the_routes_by_its_own_word(stage: Stage) -> None:
    async with stage.cluster() as cluster, stage.load(cluster) as load:
        stopping = cluster.brokers["broker-b"].stop()
        await lose_broker(stage, cluster, stopping, "told to stop: gone from every NameServer", "unregistration")
        await avoids_and_finds_again(stage, cluster, load)
        await all_received(stage, load)
        none_failed(stage, load)


@scenario("ours", "java")
async def a_broker_that_is_killed_leaves_the_routes_with_its_connection(stage: Stage) -> None:
    async with stage.cluster() as cluster, stage.load(cluster) as load:
        killing = cluster.brokers["broker-b"].kill()
        await lose_broker(stage, cluster, killing, "killed: gone from every NameServer", "connection closed")
        await avoids_and_finds_again(stage, cluster, load)
        await all_received(stage, load)
        stage.note("sends that failed", len(load.errors))


@scenario(has_hosts=True)
async def a_broker_whose_connections_are_reset_leaves_the_routes_and_comes_back_by_itself(stage: Stage) -> None:
    async with stage.cluster(has_hosts=True) as cluster, stage.load(cluster) as load:
        host = cluster.hosts.hosts["broker-b"]
        host.freeze()  # or it would be back before the check
        resetting = asyncio.to_thread(host.reset_connections)
        await lose_broker(stage, cluster, resetting, "reset: gone from every NameServer", "connection closed")
        host.thaw()
        with stage.timed("the broker runs again: back at every NameServer", at_most_ms=stage.refill_ms):
            await stage.until(cluster.all_equal_and_full, "the broker back everywhere")
        await load.more()
        await all_received(stage, load)
        stage.note("sends that failed", len(load.errors))


@scenario(has_hosts=True)
async def a_silent_broker_leaves_the_routes_when_its_lease_ends(stage: Stage) -> None:
    brokers = ("broker-a", "broker-b", "broker-c")
    heartbeats = stage.pace.heartbeats
    async with stage.cluster(name_servers=["ns1"], brokers=brokers, has_hosts=True, broker_c=heartbeats) as cluster:
        async with stage.load(cluster) as load:
            cluster.hosts.partition("broker-b", "broker-c")
            with_registrations, with_heartbeats = stage.pace.silence_ms
            with stage.timed("silent, without heartbeats: gone", at_most_ms=with_registrations):
                with stage.timed("silent, with heartbeats: gone", at_most_ms=with_heartbeats):
                    await cluster.until_gone("broker-c")
                await cluster.until_gone("broker-b")
            # The NameServer also closes connections that were idle for 120 s: without heartbeats that may come first.
            causes = await cluster.causes("ns1", "broker-b")
            stage.expect("why the one without left", causes, ["lease expired"], ["connection closed"])
            stage.expect("why the one with left", await cluster.causes("ns1", "broker-c"), ["lease expired"])
            await load.more()
            stage.expect("who takes messages", load.last_brokers, {"broker-a"})
            cluster.hosts.heal()
            with stage.timed("healed: both brokers back", at_most_ms=30_000):
                await stage.until(cluster.all_equal_and_full, "the brokers back")
            await all_received(stage, load)
            stage.note("sends that failed", len(load.errors))


@scenario()
async def a_name_server_that_pauses_loses_no_broker_that_lives(stage: Stage) -> None:
    lease_ms = stage.pace.pause_lease_ms
    pause_ms = lease_ms * 3 // 2
    with Child(stage.folder, **stage.pace.name_server) as child, child.link() as operator:
        with Heartbeats(child.address, 20, lease_ms=lease_ms) as brokers:

            def stop() -> None:
                with child.stopped():
                    time.sleep(pause_ms / 1000)

            def write_to_a_slow_disk() -> None:
                child.slow_disk(pause_ms)
                assert operator.ask(PutKvConfig(namespace="space", key="key", value="value")).code == 0
                child.slow_disk(0)

            pauses: dict[str, Callable[[], None]] = {
                f"its process was stopped for {pause_ms:,} ms": stop,
                f"its event loop was blocked for {pause_ms:,} ms": lambda: child.block(pause_ms),
                "its clock was set 3 min ahead": lambda: child.jump(180_000),
                "its clock was set 1 h back": lambda: child.jump(-3_600_000),
                f"its disk took {pause_ms:,} ms for a stored value": write_to_a_slow_disk,
            }
            for what, pause in pauses.items():
                await asyncio.to_thread(pause)
                await asyncio.sleep(lease_ms / 1000)  # who was judged wrongly leaves within that
                await expect_no_broker_lost(stage, child.address, what, brokers.names)
            await asyncio.to_thread(brokers.fall_silent)
            with stage.timed("the brokers fall silent: all gone", at_most_ms=lease_ms + SCAN_SLACK_MS):
                await stage.until(lambda: asyncio.to_thread(lambda: not operator.brokers()), "silent brokers leave")


async def expect_no_broker_lost(stage: Stage, address: str, what: str, names: list[str]) -> None:
    """Hold what a NameServer's history and its routes say against the brokers that live."""
    pool = ConnectionPool(name="test")
    try:
        snapshot = await take_snapshot(pool, address, timeout_ms=5_000)
        events = await ask_history(pool, address, count_max=1_000)
    finally:
        await pool.close()
    stage.expect(f"{what}: brokers that left", sum(event["kind"] == "broker left" for event in events), 0)
    known = sum(f"broker {name}" in snapshot.facts for name in names)
    stage.expect(f"{what}: brokers in the routes, of {len(names)}", known, len(names))


@scenario(has_hosts=True)
async def a_name_server_that_was_cut_off_agrees_again_after_healing(stage: Stage) -> None:
    async with stage.cluster(spare=["broker-c"], has_hosts=True) as cluster, stage.load(cluster) as load:
        cluster.hosts.partition("ns3")
        stage.say(f"ns3 is cut off for {stage.pace.cut_s:.0f} s …")
        await cluster.brokers["broker-b"].stop()
        await cluster.start_broker("broker-c", **stage.pace.lease)
        await asyncio.sleep(stage.pace.cut_s)
        await load.more()
        stage.expect("the others know the new broker", await cluster.knows("ns1", "broker-c"), True)
        cluster.hosts.heal()
        with stage.timed("healed: all NameServers equal", at_most_ms=30_000):
            await stage.until(cluster.all_equal, "all NameServers equal after healing")
        stage.expect("it knows who came meanwhile", await cluster.knows("ns3", "broker-c"), True)
        stage.expect("it knows who left meanwhile", await cluster.knows("ns3", "broker-b"), False)
        await cluster.restart_broker("broker-b")  # it holds messages that were not consumed yet
        await load.more()
        await all_received(stage, load)
        stage.note("sends that failed", len(load.errors))


@scenario()
async def brokers_change_while_most_name_servers_are_gone_and_clients_follow(stage: Stage) -> None:
    async with stage.cluster() as cluster, stage.load(cluster) as load:
        await asyncio.sleep(stage.pace.calm_s)
        await cluster.name_servers["ns1"].kill()
        await cluster.name_servers["ns2"].kill()
        await cluster.brokers["broker-b"].stop()
        await cluster.start_broker("broker-c")
        await create_topic(cluster)
        with stage.timed("a new broker has the topic: a producer uses it", at_most_ms=stage.pace.poll_ms + 6_000):
            await stage.until(lambda: uses(load, "broker-c"), "the new broker in use")
        await cluster.restart_broker("broker-b")  # it holds messages that were not consumed yet
        await all_received(stage, load)
        none_failed(stage, load)


@scenario()
async def a_broker_retires_gracefully(stage: Stage) -> None:
    async with stage.cluster() as cluster, stage.load(cluster) as load:
        await stage.until(lambda: uses(load, "broker-b"), "the broker in use")
        await asyncio.sleep(stage.pace.calm_s)
        for address in cluster.name_server_list:  # as mqadmin wipeWritePerm does
            expect(await cluster.pool.request(address, WipeWritePerm(broker_name="broker-b")), address)
        with stage.timed("write permission wiped: no traffic to the broker", at_most_ms=stage.pace.poll_ms + 6_000):
            await stage.until(lambda: uses_only(load, "broker-a"), "no traffic to the retired broker")
        await cluster.brokers["broker-b"].stop()
        await load.more()
        await all_received(stage, load)
        none_failed(stage, load)


async def lose_broker(stage: Stage, cluster: World, ending: Coroutine[Any, Any, None], what: str, cause: str) -> None:
    """End broker-b, and note how soon every NameServer has forgotten it, and why."""
    async with asyncio.TaskGroup() as doing:
        doing.create_task(ending)
        with stage.timed(what, at_most_ms=1_000):
            await cluster.until_gone("broker-b")
    causes = {(await cluster.causes(name, "broker-b"))[-1] for name in cluster.name_servers}
    stage.expect("why it left, by every NameServer's history", causes, {cause})


async def avoids_and_finds_again(stage: Stage, cluster: World, load: Load) -> None:
    """No client uses broker-b while it is gone; started again, it is back everywhere."""
    routes = [await load.clients.brokers_of_route(address) for address in cluster.name_server_list]
    stage.expect("the clients' tools agree", routes, [{"broker-a"}] * len(routes))
    await load.more()
    stage.expect("who takes messages", load.last_brokers, {"broker-a"})
    await cluster.restart_broker("broker-b")
    with stage.timed("started again: back at every NameServer", at_most_ms=1_000):
        await stage.until(cluster.all_equal_and_full, "the broker back everywhere")
    await load.more()


async def all_received(stage: Stage, load: Load) -> None:
    """Nothing that was confirmed is lost."""
    stage.note("messages, every one received", await load.settle())


def none_failed(stage: Stage, load: Load) -> None:
    """No send failed; tell of those that did."""
    stage.expect("sends that failed", len(load.errors), 0)
    for error in load.errors[:3]:
        stage.say(f"{type(error).__name__}: {error}")


async def uses(load: Load, broker: str) -> bool:
    return broker in load.last_brokers


async def uses_only(load: Load, broker: str) -> bool:
    return load.last_brokers == {broker}
