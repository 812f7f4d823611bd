"""A lease belongs to the connection that registered; who merely speaks of a broker neither takes it over nor ends it.

Java 5.3.3 was asked the same: its answers stand in the tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile.served import Link, Served, data_version_of, heartbeat_of, leaving_of, serving
from unit.nameserver.support import address_of, registration
from waiting import wait_for

STRANGERS = {"322": data_version_of, "904": heartbeat_of}


def hang_up(served: Served, link: Link) -> None:
    """Close a connection, and wait until the server has seen it."""
    count = len(served.server.server.connections)
    link.close()
    wait_for(lambda: len(served.server.server.connections) < count, "the connection is lost")


@pytest.mark.parametrize("code", STRANGERS)
def test_a_broker_stays_when_a_stranger_who_spoke_of_it_hangs_up(code: str, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as broker, served.link() as stranger:
        broker.register("a")
        stranger.ask(STRANGERS[code]("a"))
        hang_up(served, stranger)
        assert broker.brokers() == {"a"}


@pytest.mark.parametrize("code", [*STRANGERS, "103"])
def test_a_broker_that_registers_again_has_its_lease_back(code: str, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as broker, served.link() as stranger:
        broker.register("a")
        stranger.ask(*(registration("a", "T1", "T2") if code == "103" else (STRANGERS[code]("a"),)))
        broker.register("a")
        hang_up(served, stranger)
        assert broker.brokers() == {"a"}


@pytest.mark.parametrize("code", STRANGERS)
def test_a_broker_may_leave_by_its_own_word_on_any_connection(code: str, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as broker, served.link() as stranger:
        broker.register("a")
        stranger.ask(STRANGERS[code]("a"))
        broker.ask(leaving_of("a"))
        assert stranger.brokers() == set()


@pytest.mark.parametrize("code", STRANGERS)
def test_a_broker_whose_connection_ends_stays_for_other_connections_that_named_it(code: str, tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as broker, served.link() as stranger:
        broker.register("a")
        stranger.ask(STRANGERS[code]("a"))
        hang_up(served, broker)
        assert stranger.brokers() == set()


def test_two_names_on_one_address_live_next_to_one_another(tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as one, served.link() as other:
        for _ in range(2):
            one.register("a", "T1", "T2", broker_addr=address_of("shared"))
            other.register("b", "T3", "T4", broker_addr=address_of("shared"))
            assert (one.brokers(), one.route("T1") is None, one.route("T3") is None) == ({"a", "b"}, False, False)


def test_of_two_names_on_one_address_the_one_whose_connection_ends_leaves(tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.link() as one, served.link() as other:
        one.register("a", "T1", "T2", broker_addr=address_of("shared"))
        other.register("b", "T3", "T4", broker_addr=address_of("shared"))
        one.register("a", "T1", "T2", broker_addr=address_of("shared"))
        hang_up(served, other)  # Java lets a go, whose registration came before, and keeps b for ever
        assert one.brokers() == {"a"}


def test_a_broker_leaves_with_its_connection_though_another_clusters_broker_at_its_address_was_displaced(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as served, served.link() as one, served.link() as other, served.link() as watcher:
        one.register("b", "T3", "T4", cluster_name="c2", broker_addr="shared:1")
        other.register("a", cluster_name="c1", broker_addr="shared:1")
        other.register("a", cluster_name="c2", broker_addr="other:1")  # a's id moves; b has nothing to do with it
        hang_up(served, one)
        assert watcher.brokers() == {"a"}
