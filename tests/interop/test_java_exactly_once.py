"""Exactly-once writes to a Java broker: what its checks do with half messages that a driver has left behind."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

from interop.peers import java_servers
from orbitmq.client.transactions.decision import Decision
from orbitmq.clock import now_ms
from orbitmq.spark.exactly_once.answers import Answers, answering
from orbitmq.spark.exactly_once.commit_markers import Marker
from orbitmq.spark.exactly_once.delivery import abort, commit, prepare
from orbitmq.spark.exactly_once.end_transactions import TransactionEnder, TransactionTimeouts
from orbitmq.spark.exactly_once.marker_topic import MarkerTopic
from orbitmq.spark.exactly_once.prepared import marker_parts
from orbitmq.spark.options import WriteOptions
from unit.spark.exactly_once.topics import come, create, rows, stored

pytestmark = [pytest.mark.java, pytest.mark.proof]


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory):
    """Java's NameServer with a Java broker that asks about transactions after ten seconds."""
    asks = {"transactionTimeOut": 10_000, "transactionCheckInterval": 3_000}
    asks |= {"transactionOpBatchInterval": 500, "transactionCheckMax": 1000}
    with java_servers(tmp_path_factory.mktemp("java"), **asks) as (address, _):
        yield address


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
        MarkerTopic(options).append(Marker("dead driver", "q", batch, *marker_parts([first, second])))
        assert TransactionEnder(options).tell([first], Decision.COMMIT) == 0
        assert loser.count == 60

        commit([prepare(rows(0, 100), options, "q", batch)], options)

    assert stored(options) == Counter(dict.fromkeys(range(100), 2))


def test_a_batch_that_is_too_old_for_direct_commits_comes_by_checks(options):
    prepared = prepare(rows(0, 100), options, "q", 0)
    prepared.born_at_ms = now_ms() - 9_000

    assert TransactionEnder(options).tell([prepared], Decision.COMMIT) == 100, "the broker may be asking already"
    commit([prepared], options)
    assert stored(options) == Counter(range(100))


def test_a_direct_commit_after_the_broker_has_asked_would_deliver_twice(options):
    """Why the driver leaves old half messages to the checks: Java's broker takes both decisions."""
    prepared = prepare(rows(0, 10), options, "q", 0)
    journal = MarkerTopic(options)
    journal.append(Marker("late driver", "q", 0, *marker_parts([prepared])))
    halves = replace(options, topic="RMQ_SYS_TRANS_HALF_TOPIC")
    (place,) = prepared.halves
    last = max(prepared.halves[place][::2])
    while come(halves) < last + 1 + prepared.count:  # all of them are stored again when the broker asks
        time.sleep(0.2)
    late = TransactionEnder(options)
    late._timeouts[place.broker_name] = TransactionTimeouts(direct_ms=None, given_up_ms=10**9)

    assert late.tell([prepared], Decision.COMMIT) == 0, "the broker does not refuse"
    with answering(options, Answers(journal), [options.topic]):
        while come(options) < 2 * prepared.count:
            time.sleep(0.2)
    assert stored(options) == Counter(dict.fromkeys(range(10), 2))


def test_an_aborted_batch_leaves_nothing(options):
    prepared = prepare(rows(0, 100), options, "q", 0)
    abort([prepared], options)

    commit([prepare(rows(0, 100), options, "q", 0)], options)
    assert stored(options) == Counter(range(100))
