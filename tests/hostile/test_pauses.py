"""A pause of the NameServer, or a jump of its clock, is not a broker's silence: who lives stays in the routes.

Java 5.3.3 reads its sockets on other threads than it judges leases on, and loses one broker of eighty to a pause of three
leases; ours lost all of them.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hostile.served import Child, Heartbeats, data_version_of, serving
from unit.nameserver.support import registration
from waiting import wait_for

LEASE_MS = 1_000
SCAN_MS = 50
BROKERS = 20
RENEWALS = {
    "heartbeats": None,
    "registrations": lambda name: registration(name, "T1", "T2", heartbeat_timeout_millis=LEASE_MS),
    "questions for the data version": lambda name: (data_version_of(name), b""),
}


@pytest.mark.parametrize("kind", RENEWALS)
def test_renewals_that_wait_in_the_sockets_after_a_pause_are_read_before_a_broker_is_judged(
    kind: str, tmp_path: Path
) -> None:
    with serving(tmp_path, scan_not_active_broker_interval=SCAN_MS) as served, served.link() as link:
        with Heartbeats(served.address, BROKERS, lease_ms=LEASE_MS, say=RENEWALS[kind]) as brokers:
            with served.blocked():
                time.sleep(3 * LEASE_MS / 1000)
            assert link.brokers() == set(brokers.names)
            time.sleep(10 * SCAN_MS / 1000)  # as many scans
            assert link.brokers() == set(brokers.names)


def test_a_stopped_process_that_goes_on_expels_no_living_broker(tmp_path: Path) -> None:
    lease_ms = 2 * LEASE_MS
    with Child(tmp_path, scanNotActiveBrokerInterval=SCAN_MS) as child, child.link() as link:
        with Heartbeats(child.address, BROKERS, lease_ms=lease_ms) as brokers:
            with child.stopped():
                time.sleep(2 * lease_ms / 1000)
            assert link.brokers() == set(brokers.names)
            time.sleep(10 * SCAN_MS / 1000)
            assert link.brokers() == set(brokers.names)


@pytest.mark.parametrize("by_ms", [180_000, -180_000])
def test_a_wall_clock_that_jumps_expels_no_living_broker(by_ms: int, tmp_path: Path) -> None:
    with Child(tmp_path, scanNotActiveBrokerInterval=SCAN_MS) as child, child.link() as link:
        with Heartbeats(child.address, BROKERS, lease_ms=60_000) as brokers:
            child.jump(by_ms)
            time.sleep(10 * SCAN_MS / 1000)
            assert link.brokers() == set(brokers.names)


@pytest.mark.parametrize("topics", [(), ("T1", "T2", "T3")])
def test_a_wall_clock_that_was_put_back_lets_a_silent_broker_leave_with_its_lease(
    topics: tuple[str, ...], tmp_path: Path
) -> None:
    with Child(tmp_path, scanNotActiveBrokerInterval=SCAN_MS) as child, child.link() as link, child.link() as broker:
        broker.register("a", heartbeat_timeout_millis=LEASE_MS)
        child.jump(-3_600_000)
        if topics:
            broker.register("a", *topics, version=2, heartbeat_timeout_millis=LEASE_MS)
        wait_for(lambda: not link.brokers(), "the silent broker leaves")
