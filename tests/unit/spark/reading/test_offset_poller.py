"""Brokers are asked for new offsets at the poll interval, NameServers for new queues once a second."""

from __future__ import annotations

import pytest

from orbitmq.errors import NoNameServer, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import Earliest
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading import offset_poller as module
from orbitmq.spark.reading.metadata_client import MetadataClient
from orbitmq.spark.reading.offset_poller import OffsetPoller, patiently
from orbitmq.wire.headers import GetMaxOffset, GetRouteInfo
from unit.spark.fake_time import FakeTime

FIRST, SECOND, UNKNOWN = (MessageQueue("orders", "fake", queue_id) for queue_id in (0, 1, 7))


@pytest.fixture
def clock(monkeypatch):
    found = FakeTime()
    monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def poller(fake, clock):
    options = ReadOptions(name_servers=(fake.address,), start=Earliest(), topics=("orders",), offset_poll_ms=400)
    found = OffsetPoller(MetadataClient.of(options), options)
    yield found
    found.close()


def test_a_server_that_is_away_is_told_once_until_it_says_something_else(clock, caplog):
    answers = [NoNameServer("refused"), NoNameServer("refused"), NoNameServer("reset"), 7]

    def ask():
        answer = answers.pop(0)
        if isinstance(answer, int):
            return answer
        raise answer

    options = ReadOptions(name_servers=("ns:1",), start=Earliest(), topics=("orders",))
    assert patiently(ask, options, "the end", MetadataClient.of(options)) == 7
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["refused", "reset"]


@pytest.mark.parametrize(("is_connected", "waited_s"), [(False, 10), (True, 60)])
def test_name_servers_of_which_none_has_answered_are_waited_for_ten_seconds(clock, is_connected, waited_s):
    options = ReadOptions(name_servers=("ns:1",), start=Earliest(), topics=("orders",))
    client = MetadataClient.of(options)
    client.is_connected = is_connected

    def ask():
        raise NoNameServer("refused")

    with pytest.raises(NoNameServer):
        patiently(ask, options, "the end", client)
    assert sum(clock.waits) == waited_s


def test_a_client_is_connected_once_a_name_server_has_answered(fake, poller):
    fake.fill("orders", 0, 5)
    assert not poller._client.is_connected
    poller.refresh()
    assert poller._client.is_connected


def test_the_latest_offsets_are_known_after_a_refresh(fake, poller):
    fake.fill("orders", 0, 5)
    assert poller.latest == {}
    poller.refresh()

    assert poller.latest == {FIRST: 5}


def test_a_refresh_waits_for_the_poll_interval(fake, poller, clock):
    fake.fill("orders", 0, 5)
    assert not poller.is_fresh
    poller.refresh()
    assert poller.is_fresh
    clock.now += 0.1
    poller.refresh()
    clock.now += 0.4

    assert not poller.is_fresh
    poller.refresh()
    assert clock.waits == pytest.approx([0, 0.3, 0])


def test_routes_are_asked_for_once_a_second(fake, poller, clock):
    fake.fill("orders", 0, 5)
    for _ in range(4):  # at 0, 0.4, 0.8 and 1.2 seconds
        poller.refresh()

    assert [type(header) for header in fake.asked] == [
        GetRouteInfo, GetMaxOffset, GetMaxOffset, GetMaxOffset, GetRouteInfo, GetMaxOffset
    ]  # fmt: skip


def test_without_name_servers_the_known_queues_go_on(fake, poller, clock, caplog):
    fake.fill("orders", 0, 5)
    poller.refresh()
    fake.refuses.add(GetRouteInfo)
    fake.fill("orders", 0, 1)
    clock.now += 10
    poller.refresh()

    assert poller.latest == {FIRST: 6}
    assert "going on with the queues known" in caplog.text


def test_a_broker_that_does_not_answer_leaves_its_queues_out(fake, poller, caplog):
    fake.fill("orders", 0, 5)
    fake.broker_address = "127.0.0.1:1"
    poller.refresh()

    assert poller.latest == {}
    assert "broker 127.0.0.1:1 does not answer, its queues wait" in caplog.text


def test_a_queue_that_left_its_route_stays_known(fake, poller):
    fake.fill("orders", 1, 5)
    poller.find_queues()
    del fake.queues["orders", 1]
    fake.fill("orders", 0, 5)

    assert poller.find_queues().keys() == {FIRST, SECOND} == poller.queues.keys()


def test_a_fixed_end_stays_and_no_server_is_asked_any_more(fake, poller, clock):
    fake.fill("orders", 0, 5)
    poller.fix_end()
    fake.fill("orders", 0, 5)
    fake.asked.clear()
    clock.now += 10
    poller.refresh()

    assert poller.is_fresh
    assert poller.latest == {FIRST: 5}
    assert (fake.asked, clock.waits) == ([], [])


def test_a_fixed_end_waits_for_a_name_server(fake, poller, clock):
    fake.fill("orders", 0, 5)
    name_servers = poller._client._name_servers
    name_servers.configure(["127.0.0.1:1"])
    clock.asleep = lambda: name_servers.configure([fake.address] if len(clock.waits) == 3 else ["127.0.0.1:1"])
    poller.fix_end()

    assert poller.latest == {FIRST: 5}
    assert clock.waits == [module.PAUSE_S] * 3


def test_a_name_server_that_stays_away_ends_the_wait_for_a_fixed_end(poller, clock):
    poller._client._name_servers.configure(["127.0.0.1:1"])
    poller._client.is_connected = True
    with pytest.raises(NoNameServer):
        poller.fix_end()

    assert sum(clock.waits) == poller._options.broker_timeout_ms / 1000


def test_a_fixed_end_does_not_wait_for_a_topic_that_is_not_there(fake, poller, clock):
    with pytest.raises(RouteNotFound):
        poller.fix_end()

    assert clock.waits == []


def test_the_beginnings_of_known_queues_are_found(fake, poller):
    fake.fill("orders", 0, 5, first=3)
    poller.find_queues()

    assert poller.earliest({FIRST, UNKNOWN}) == {FIRST: 3}
    assert poller.earliest({UNKNOWN}) == {}


def test_a_bound_is_resolved_for_the_queues_of_now(fake, poller):
    fake.fill("orders", 0, 5, first=3)

    assert poller.resolve(Earliest(), "startingOffsets") == {FIRST: 3}
    assert poller.queues == {FIRST: fake.address}
