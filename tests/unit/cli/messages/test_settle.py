"""`orbitmq settle`: rows of exactly-once writes get their end, although no query runs."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from orbitmq.spark.exactly_once.commit_markers import Marker
from orbitmq.spark.exactly_once.delivery import prepare
from orbitmq.spark.exactly_once.marker_topic import MarkerTopic
from orbitmq.spark.exactly_once.prepared import marker_parts
from orbitmq.spark.options import WriteOptions
from orbitmq.testing import LocalCluster
from unit.spark.exactly_once.topics import create, rows, stored


@pytest.fixture(scope="module")
def cluster():
    settings = {"transaction_time_out": 100, "transaction_check_interval": 200, "transaction_check_max": 1000}
    with LocalCluster.running(settings=settings) as cluster:
        yield cluster.name_servers


@pytest.fixture
def left(cluster, request):
    """Ten rows whose driver has died before its marker: options, and what the task has reported."""
    number = len(request.node.name)
    create(cluster, f"rows-{number}", 2)
    create(cluster, f"markers-{number}", 1)
    options = WriteOptions(
        name_servers=(cluster,),
        topic=f"rows-{number}",
        group=f"group-{number}",
        exactly_once=True,
        marker_topic=f"markers-{number}",
    )
    return options, prepare(rows(0, 10), options, f"query-{number}", 3)


def settle(orbitmq, options, *more):
    servers = options.name_servers[0]
    named = ("--markers", options.marker_topic, "--group", options.group, "-n", servers, "--seconds", "3")
    return orbitmq("settle", options.topic, *named, *more)


def test_rows_whose_batch_was_decided_are_committed(orbitmq, left):
    options, prepared = left
    MarkerTopic(options).append(Marker("dead", prepared.query, prepared.batch, *marker_parts([prepared])))

    found = settle(orbitmq, options, "-o", "json")
    assert found.code == 0, found.err
    assert found.json == [{"committed": 10, "rolled_back": 0, "left_open": 0}]
    assert stored(options) == Counter(range(10))


def test_rows_whose_batch_is_undecided_stay_open_unless_they_are_abandoned(orbitmq, left):
    options, _ = left
    found = settle(orbitmq, options)
    assert (found.code, found.rows) == (1, [["0", "0", "10"]])

    found = settle(orbitmq, options, "--abandon-after", "1")
    assert (found.code, found.rows) == (0, [["0", "10", "0"]])
    assert not stored(options)


def test_a_topic_of_markers_that_is_none_is_an_error(orbitmq, left):
    options, _ = left
    found = orbitmq("settle", options.topic, "--markers", options.topic, "-n", options.name_servers[0])

    assert found.code != 0
    assert "2 queues" in found.err


def test_without_spark_the_command_says_what_is_missing(orbitmq, monkeypatch):
    monkeypatch.setitem(sys.modules, "orbitmq.spark.exactly_once.answers", None)

    found = orbitmq("settle", "orders")
    assert found.code != 0
    assert "pip install 'orbitmq[spark]'" in found.err
