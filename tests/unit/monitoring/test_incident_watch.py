"""The watch of a cluster; tests/e2e/test_alerts.py kills a broker, and the command itself."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import NamedTuple

import pytest

from orbitmq import Message
from orbitmq.admin.client import AdminClient
from orbitmq.client.producer import Producer
from orbitmq.errors import ClientError, ConfigError
from orbitmq.model.topic import TopicConfig
from orbitmq.monitoring import incident_watch as module
from orbitmq.monitoring.alerts import Alert
from orbitmq.monitoring.incident_watch import IncidentWatch, look_at
from orbitmq.monitoring.incidents import BEGUN, ClusterSample, alert_in, open_incidents
from orbitmq.net.security.client_security import load_security

SECURITY = load_security(None)
ALERT = Alert("DiskFull", "95 % of the disk is used")


pytestmark = pytest.mark.real


class Place(NamedTuple):
    """A cluster, and a topic of the test's own."""

    name_servers: str
    topic: str


@pytest.fixture
def cluster(rocketmq_session, request):
    return Place(rocketmq_session.name_servers, request.node.name[-100:])


@pytest.fixture
def alerts(monkeypatch):
    """Return the alerts that the server n:1 has in each look."""
    found: list[Alert] = []

    async def look(*_):
        return ClusterSample({"n:1": list(found)}, frozenset({"n:1"}))

    monkeypatch.setattr(module, "look_at", look)
    return found


async def watch_of(cluster, told=None):
    """Return a watch whose topic has a message that is not a notice."""
    async with AdminClient(cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic=cluster.topic))
    async with Producer("tests", cluster.name_servers) as producer:
        await producer.send(Message(cluster.topic, b"hello"))
    return IncidentWatch(
        cluster.name_servers, SECURITY, 3_000, cluster.topic, (told if told is not None else []).append
    )


async def states(watch):
    return sorted(notice.state for notice in await watch.read_notices())


async def test_every_nameserver_and_every_broker_is_asked_and_a_silent_one_is_not_there(cluster):
    found = await look_at(f"{cluster.name_servers};127.0.0.1:1", SECURITY._asdict(), 3_000)
    assert cluster.name_servers in found.answers
    assert len(found.answers) >= 2  # and its broker
    assert "127.0.0.1:1" not in found.answers
    assert found.name_servers == {cluster.name_servers, "127.0.0.1:1"}


async def test_an_incident_is_told_when_it_begins_and_when_it_is_over_by_whichever_watch(cluster, alerts):
    told: list[str] = []
    watch = await watch_of(cluster, told)
    await watch.run(0.0, looks=2)
    assert await states(watch) == []
    alerts.append(ALERT)
    await watch.run(0.0, looks=4)
    again = await watch_of(cluster)
    await again.run(0.0, looks=2)
    assert await states(again) == ["begun"]
    assert again.opened == watch.opened == open_incidents(await again.read_notices())
    alerts.clear()
    await again.run(0.0, looks=3)
    assert await states(again) == ["begun", "over"]
    assert told[0] == "watching: 0 incidents are open"
    assert told[-1] == "begun: DiskFull n:1 (95 % of the disk is used)"
    assert "1 servers answer, 0 alerts hold" in told


async def test_a_notice_that_was_stored_and_not_acknowledged_is_not_sent_again(cluster, alerts, monkeypatch):
    told: list[str] = []
    watch = await watch_of(cluster, told)
    send, calls = Producer.send, count()

    async def send_unheard(producer, message, **options):
        await send(producer, message, **options)
        if next(calls) == 0:
            raise ClientError("no acknowledgement")

    monkeypatch.setattr(Producer, "send", send_unheard)
    alerts.append(ALERT)
    await watch.look()
    assert watch.opened is None
    await watch.look()
    assert await states(watch) == [BEGUN]
    assert "not told, and tried again: no acknowledgement" in told


async def test_brokers_that_do_not_answer_do_not_end_the_watch(cluster, alerts, monkeypatch):
    watch = await watch_of(cluster)
    await watch.run(0.0, looks=1)
    with monkeypatch.context() as patch:
        patch.setattr(Producer, "send", _refuse)
        alerts.append(ALERT)
        await watch.run(0.0, looks=3)
    assert (watch.opened, watch.looks) == (None, 3)
    await watch.run(0.0, looks=4)
    assert await states(watch) == [BEGUN]


async def _refuse(*_, **__):
    raise ClientError("no broker")


async def test_a_look_that_has_begun_is_finished_when_the_watch_is_ended(cluster, alerts, monkeypatch):
    watch = await watch_of(cluster)
    alerts.append(ALERT)
    begun, send = asyncio.Event(), Producer.send

    async def send_later(producer, message, **options):
        begun.set()
        await asyncio.sleep(0)
        return await send(producer, message, **options)

    monkeypatch.setattr(Producer, "send", send_later)
    running = asyncio.create_task(watch.run(60.0))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert watch.looks == 1
    assert watch.opened == open_incidents(await watch.read_notices()) != {}


async def test_a_topic_that_is_not_there_is_said_with_what_to_type(cluster):
    watch = IncidentWatch(cluster.name_servers, SECURITY, 3_000, "none", print)
    with pytest.raises(ConfigError, match="orbitmq topic create none"):
        await watch.run(0.0, looks=1)


async def test_an_alert_that_is_too_large_for_a_message_does_not_hold_up_the_others(cluster, alerts):
    large = (Alert("R" * 40_000, "x"), Alert("R", "x" * 5_000_000), Alert("S", "x", ("s" * 40_000,)))
    alerts += [alert_in(alert.document()) for alert in large]
    alerts.append(ALERT)
    watch = await watch_of(cluster)
    await watch.run(0.0, looks=2)
    notices = await watch.read_notices()
    assert len(notices) == 4
    assert watch.opened == open_incidents(notices)


async def test_servers_that_no_longer_answer_are_said_when_it_happens(cluster, monkeypatch):
    told: list[str] = []
    watch = await watch_of(cluster, told)
    answers = {"n:1": [], "b:1": []}

    async def look(*_):
        return ClusterSample(dict(answers), frozenset({"n:1"}))

    monkeypatch.setattr(module, "look_at", look)
    await watch.run(0.0, looks=3)
    answers.clear()
    await watch.run(0.0, looks=6)
    assert told[1:] == ["2 servers answer, 0 alerts hold", "0 servers answer, 0 alerts hold"]
