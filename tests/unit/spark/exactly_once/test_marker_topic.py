"""The marker topic is read in its order, from where a reader was before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from guarded import guarded_cluster
from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.client.send.result import SendStatus
from orbitmq.errors import ConfigError, RouteNotFound, SendFailed
from orbitmq.spark.exactly_once import marker_topic as journal_module
from orbitmq.spark.exactly_once.commit_markers import Abort, CommitMarker, Marker
from orbitmq.spark.exactly_once.marker_topic import BatchMarkers, MarkerRecord, MarkerTopic
from orbitmq.spark.options import WriteOptions
from orbitmq.testing import LocalCluster


def marker(name, query="q", batch=1):
    return Marker(name, query, batch, {name: ()}, {})


def test_records_are_read_in_order_from_an_offset_on(marker_topic):
    entries = [marker("a"), Abort("q", 1, frozenset("b")), marker("c", batch=2)]
    for entry in entries:
        marker_topic.append(entry)

    assert list(marker_topic.read()) == [MarkerRecord(offset, entry) for offset, entry in enumerate(entries)]
    assert list(marker_topic.read(2)) == [MarkerRecord(2, entries[2])]
    assert list(marker_topic.read(3)) == []


def test_a_batch_is_found_among_others_and_from_where_it_begins(marker_topic):
    for entry in (marker("x", "other"), marker("y", batch=0), marker("a"), marker("b"), marker("z", "other")):
        marker_topic.append(entry)

    assert marker_topic.find("q", 1) == BatchMarkers(CommitMarker(marker("a")), 2, 1)
    assert marker_topic.find("q", 1, 2) == BatchMarkers(CommitMarker(marker("a")), 2, 1)
    assert marker_topic.find("q", 9) == BatchMarkers(CommitMarker(), 5, 1)
    assert marker_topic.find("q", 9, 5) == BatchMarkers(CommitMarker(), 5)


def test_a_message_of_another_program_in_the_topic_is_an_error(once, marker_topic):
    with Producer("somebody", once.name_servers) as producer:
        producer.send(Message(once.marker_topic, b"hello"))

    with pytest.raises(ConfigError, match="markerTopic"):
        marker_topic.find("q", 1)


def test_a_marker_that_the_broker_may_lose_is_none(once, monkeypatch):
    send = journal_module.BlockingProducer.send

    def send_badly(self, *arguments, **named):
        return send(self, *arguments, **named)._replace(status=SendStatus.FLUSH_DISK_TIMEOUT)

    monkeypatch.setattr(journal_module.BlockingProducer, "send", send_badly)
    with pytest.raises(SendFailed, match="FLUSH_DISK_TIMEOUT"):
        MarkerTopic(once).append(marker("a"))


def test_a_marker_is_found_although_its_queue_shows_it_late(marker_topic, monkeypatch):
    latest, ends = journal_module.MetadataClient.latest, iter((0, 0, 0))

    def late(self, queues, **named):
        return dict.fromkeys(queues, end) if (end := next(ends, None)) is not None else latest(self, queues, **named)

    monkeypatch.setattr(journal_module.MetadataClient, "latest", late)
    marker_topic.append(marker("a"))
    assert marker_topic.find("q", 1).marker == CommitMarker(marker("a"))


def test_a_marker_that_its_queue_never_shows_is_an_error(once, monkeypatch):
    monkeypatch.setattr(journal_module.MetadataClient, "latest", lambda _self, queues: dict.fromkeys(queues, 0))
    with pytest.raises(SendFailed, match=r"offset 0 of .* is not shown by its queue within 50 ms"):
        MarkerTopic(replace(once, commit_timeout_ms=50)).append(marker("a"))


def test_the_topic_is_read_as_patiently_as_the_options_say(once):
    options = journal_module.read_options(replace(once, send_timeout_ms=77, retries=5), "t")

    assert (options.topics, options.pull_timeout_ms, options.retries, options.group) == (("t",), 77, 5, once.group)


def test_a_topic_that_is_missing_is_created_on_the_broker_that_is_named(once):
    missing = MarkerTopic(replace(once, marker_topic=f"{once.marker_topic}-new", marker_broker="broker-a"))
    with ThreadPoolExecutor(4) as tasks:  # of one micro-batch, all at the same time
        found = list(tasks.map(lambda _: missing.find("q", 1), range(8)))

    assert found == [BatchMarkers(CommitMarker(), 0)] * 8
    missing.append(marker("a"))
    assert missing.find("q", 1).marker == CommitMarker(marker("a"))


def test_a_topic_is_created_nowhere_unless_a_broker_is_named(once):
    missing = MarkerTopic(replace(once, marker_topic=f"{once.marker_topic}-none"))

    for _ in range(2):
        with pytest.raises(RouteNotFound, match=r"orbitmq topic create .* --queues 1; or the option markerBroker"):
            missing.find("q", 1)


@pytest.mark.real
def test_markers_of_a_broker_that_is_away_are_not_begun_again_on_another():
    with LocalCluster.running(brokers=2) as cluster:
        options = WriteOptions(name_servers=(cluster.name_servers,), exactly_once=True, marker_broker="broker-a")
        MarkerTopic(options).append(marker("a"))
        cluster.stop_broker("broker-a")
        with pytest.raises(ConfigError, match=r"markerBroker: 'broker-a' is not allowed, expected .*broker-b"):
            MarkerTopic(options).find("q", 1)
        cluster.start_broker("broker-a")

        assert MarkerTopic(options).find("q", 1).marker == CommitMarker(marker("a"))


@pytest.mark.real
def test_a_user_who_may_not_create_topics_learns_which_role_may(tmp_path):
    with guarded_cluster(tmp_path) as cluster:
        made = WriteOptions(name_servers=(cluster.name_servers,), exactly_once=True)
        writer, admin = (
            replace(
                made, security_file=str(cluster.security_file(role)), marker_broker=cluster.broker.config.broker_name
            )
            for role in ("writer", "admin")
        )
        with pytest.raises(RouteNotFound, match=r"answered code 16.*a user with the role admin"):
            MarkerTopic(writer).find("q", 1)

        assert MarkerTopic(admin).find("q", 1) == BatchMarkers(CommitMarker(), 0)
