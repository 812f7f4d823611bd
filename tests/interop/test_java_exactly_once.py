"""Exactly-once writes to a Java broker: what its checks do with half messages that a driver has left behind."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from interop.peers import JavaBroker, JavaNameServer, why_unavailable
from orbitmq.client.transactions.decision import Decision
from orbitmq.clock import now_ms
from orbitmq.spark.once.delivery import abort, commit, prepare
from orbitmq.spark.once.ends import Ends
from orbitmq.spark.once.journal import Journal
from orbitmq.spark.once.prepared import marker_parts
from orbitmq.spark.once.rules.ledger import Marker
from orbitmq.spark.options import WriteOptions
from unit.spark.once.topics import create, rows, stored

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory):
    """Java's NameServer with a Java broker that asks about transactions after ten seconds."""
    reason = why_unavailable()
    if reason is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    name_server = JavaNameServer(tmp_path_factory.mktemp("java-nameserver"))
    name_server.start()
    asks = {
        "transactionTimeOut": 10_000,
        "transactionCheckInterval": 3_000,
        "transactionOpBatchInterval": 500,
        "transactionCheckMax": 1000,
    }
    broker = JavaBroker(tmp_path_factory.mktemp("java-broker"), name_server.address, properties=asks)
    try:
        broker.start()
        yield name_server.address
    finally:
        broker.kill()
        name_server.kill()


@pytest.fixture
def options(name_servers, request):
    number = len(request.node.name)
    create(name_servers, f"once-{number}", 4)
    create(name_servers, f"once-markers-{number}", 1)
    return WriteOptions(
        name_servers=(name_servers,),
        topic=f"once-{number}",
        group=f"once-group-{number}",
        exactly_once=True,
        row_ids=False,
        marker_topic=f"once-markers-{number}",
        commit_timeout_ms=60_000,
    )


def test_what_a_driver_left_is_finished_by_the_brokers_checks_and_not_repeated_by_the_next(options):
    for batch in range(2):  # while the second one is checked, a repetition of the first would come
        first, second = (prepare(rows(*part), options, "q", batch) for part in ((0, 60), (60, 100)))
        loser = prepare(rows(0, 60), options, "q", batch)
        Journal(options).append(Marker("dead driver", "q", batch, *marker_parts([first, second])))
        assert Ends(options).tell([first], Decision.COMMIT) == 0
        assert loser.count == 60

        commit([prepare(rows(0, 100), options, "q", batch)], options)

    assert stored(options) == Counter(dict.fromkeys(range(100), 2))


def test_a_batch_that_is_too_old_for_direct_commits_comes_by_checks(options):
    prepared = prepare(rows(0, 100), options, "q", 0)
    prepared.born_at_ms = now_ms() - 9_000

    assert Ends(options).tell([prepared], Decision.COMMIT) == 100, "the broker may be asking already"
    commit([prepared], options)
    assert stored(options) == Counter(range(100))


def test_an_aborted_batch_leaves_nothing(options):
    prepared = prepare(rows(0, 100), options, "q", 0)
    abort([prepared], options)

    commit([prepare(rows(0, 100), options, "q", 0)], options)
    assert stored(options) == Counter(range(100))
