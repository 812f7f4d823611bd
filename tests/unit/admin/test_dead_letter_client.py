"""Dead letters on two brokers of ours."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from orbitmq.admin import AdminClient
from orbitmq.admin.dead_letter_client import WINDOW_SIZE, DeadLetters
from orbitmq.admin.dead_letters import DeadLetterPosition, DeadLetterSelection
from orbitmq.client.producer import Producer
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.errors import ClientError, InvalidArgument, RequestTimeout, RouteNotFound, SendFailed
from orbitmq.model.topic import TopicConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import LocalCluster
from unit.admin.support import bury
from waiting import until

pytestmark = pytest.mark.real


@asynccontextmanager
async def buried(a=3, b=2):
    """A cluster of two brokers with dead letters of the group `billing` on each, and a client for them."""
    async with LocalCluster(brokers=2) as cluster:
        await create_topic(cluster, "orders")
        for broker, count in (("broker-a", a), ("broker-b", b)):
            bodies = [f"{broker[-1]}{number}".encode() for number in range(count)]
            fields = {"tag": "t", "properties": {"own": "value"}}
            await bury(cluster.name_servers, cluster.brokers, "billing", "orders", *bodies, broker=broker, **fields)
        async with DeadLetters(cluster.name_servers) as dead_letters:
            yield cluster, dead_letters


async def create_topic(cluster, topic, perm=6, broker=None):
    async with AdminClient(cluster.name_servers) as admin:
        config = TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1, perm=perm)
        await admin.create_topic(config, broker=broker)


async def bodies(letters):
    return [letter.message.body async for letter in letters]


async def orders(cluster):
    """All messages of `orders` by body."""
    found = []
    async with PullConsumer("audit", cluster.name_servers) as reader:
        reader.assign(queues := await reader.queues("orders"))
        ends = {queue: span.end for queue, span in (await reader.offsets(queues)).items()}
        while len(found) < sum(ends.values()):
            found += await reader.poll()
    return found


async def test_groups_with_dead_letters_are_told_and_others_are_not():
    async with buried() as (cluster, dead_letters):
        await create_topic(cluster, "%DLQ%idle")
        (found,) = await dead_letters.groups()
        newest = max([letter.message.stored_at_ms async for letter in dead_letters.read("billing")])
        assert (found.group, found.count, found.newest_at_ms, found.problem) == ("billing", 5, newest, None)


async def test_letters_are_read_broker_by_broker_and_tell_their_origin():
    async with buried() as (_cluster, dead_letters):
        letters = [letter async for letter in dead_letters.read("billing")]
        assert [letter.message.body for letter in letters] == [b"a0", b"a1", b"a2", b"b0", b"b1"]
        assert [str(letter.place) for letter in letters][2:4] == ["broker-a:0:2", "broker-b:0:0"]
        assert {letter.origin_topic for letter in letters} == {"orders"}
        assert await bodies(dead_letters.read("%DLQ%billing")) == [letter.message.body for letter in letters]


@pytest.mark.parametrize(
    ("selection", "found"),
    [
        (DeadLetterSelection(count_max=2), [b"a0", b"a1"]),
        (DeadLetterSelection(broker_name="broker-b"), [b"b0", b"b1"]),
        (DeadLetterSelection(offset_min=1), [b"a1", b"a2", b"b1"]),
        (DeadLetterSelection(offset_end=1), [b"a0", b"b0"]),
        (DeadLetterSelection(start=DeadLetterPosition("broker-a", 0, 2)), [b"a2", b"b0", b"b1"]),
        (DeadLetterSelection(offset_min=9), []),
    ],
)
async def test_a_selection_is_what_is_read(selection, found):
    async with buried() as (_cluster, dead_letters):
        assert await bodies(dead_letters.read("billing", selection)) == found


async def test_ids_of_each_kind_find_their_letter():
    async with buried() as (_cluster, dead_letters):
        letters = [letter async for letter in dead_letters.read("billing")]
        for letter in (letters[0], letters[4]):
            assert len(letter.ids) == 3
            for one in letter.ids:
                found = await bodies(dead_letters.read("billing", DeadLetterSelection(ids=frozenset((one,)))))
                assert found == [letter.message.body]


async def test_letters_go_back_to_their_topic_and_stay_where_they_are():
    async with buried() as (cluster, dead_letters):
        resent = [(letter, sent) async for letter, sent in dead_letters.resend("billing")]
        assert [letter.message.body for letter, _ in resent] == [b"a0", b"a1", b"a2", b"b0", b"b1"]
        again = [message for message in await orders(cluster) if "DLQ_ORIGIN_MESSAGE_ID" in message.properties]
        assert sorted(message.body for message in again) == [b"a0", b"a1", b"a2", b"b0", b"b1"]
        origins = {letter.origin_id for letter, _ in resent}
        assert {message.properties["DLQ_ORIGIN_MESSAGE_ID"] for message in again} == origins
        assert {(message.tag, message.properties["own"], message.reconsume_times) for message in again} == {
            ("t", "value", 0)
        }
        assert (await dead_letters.groups())[0].count == 5


async def test_what_was_stopped_goes_on_at_the_next_place_with_nothing_lost_or_doubled():
    async with buried() as (cluster, dead_letters):
        done, start = [], None
        for _ in range(5):  # stopped after each letter
            async for letter, _sent in dead_letters.resend("billing", DeadLetterSelection(start=start)):
                done.append(letter.message.body)
                start = letter.place.next
                break
        assert done == [b"a0", b"a1", b"a2", b"b0", b"b1"]
        assert len(await orders(cluster)) == 10
        assert [one async for one in dead_letters.resend("billing", DeadLetterSelection(start=start))] == []


async def test_letters_that_were_sent_are_sent_once_more_only_where_that_is_asked_for():
    async with buried() as (_cluster, dead_letters):

        async def resent(selection=DeadLetterSelection(), **options):  # noqa: B008
            return [letter.message.body async for letter, _ in dead_letters.resend("billing", selection, **options)]

        assert await resent(DeadLetterSelection(offset_min=1)) == [b"a1", b"a2", b"b1"], "which leaves a gap"
        assert await resent(DeadLetterSelection(ids=frozenset(["nowhere"]))) == []
        assert await resent(DeadLetterSelection(count_max=2)) == [b"a0", b"a1"]
        assert await bodies(dead_letters.read("billing", only_unsent=True)) == [b"a2", b"b0", b"b1"]
        for left in ([b"a2"], [b"b0"]):  # stopped after each letter
            async for letter, _sent in dead_letters.resend("billing"):
                assert [letter.message.body] == left
                break
        assert await resent() == [b"b1"]
        assert await resent() == []
        assert await resent(DeadLetterSelection(offset_min=2)) == [b"a2"]
        assert await resent(again=True) == [b"a0", b"a1", b"a2", b"b0", b"b1"]
        assert await bodies(dead_letters.read("billing")) == [b"a0", b"a1", b"a2", b"b0", b"b1"]


async def test_a_letter_that_cannot_be_sent_ends_it_with_the_earlier_ones_told(monkeypatch):
    async with buried() as (_cluster, dead_letters):
        send, told = Producer.send, []

        async def refuse(self, message, **settings):
            if message.body == b"a2":
                raise SendFailed("as the test wants")
            return await send(self, message, **settings)

        monkeypatch.setattr(Producer, "send", refuse)

        async def resend():
            async for letter, _sent in dead_letters.resend("billing"):
                told.append(letter.message.body)

        with pytest.raises(SendFailed):
            await resend()
        assert told == [b"a0", b"a1"]


async def test_letters_may_go_to_another_topic():
    async with buried(a=1, b=0) as (cluster, dead_letters):
        await create_topic(cluster, "repaired")
        ((_letter, sent),) = [one async for one in dead_letters.resend("billing", topic="repaired")]
        assert sent.queue.topic == "repaired"


async def test_a_group_without_dead_letters_says_so():
    async with buried(a=0, b=0) as (_cluster, dead_letters):
        with pytest.raises(RouteNotFound, match="the group billing has no dead letters"):
            await bodies(dead_letters.read("billing"))
        with pytest.raises(InvalidArgument):
            await bodies(dead_letters.read("no such group"))
        assert await dead_letters.groups() == []


async def test_an_unreadable_topic_is_named_with_what_helps():
    async with buried() as (cluster, _dead_letters):
        await create_topic(cluster, "%DLQ%billing", perm=2, broker="broker-b")
        async with DeadLetters(cluster.name_servers) as fresh:  # the route that the other one knows is old
            (found,) = await fresh.groups()
            assert found.count == 5
            assert "cannot be read on broker-b: the topic is write-only there" in str(found.problem)
            with pytest.raises(ClientError, match=r"topic create '%DLQ%billing' --queues 1 --broker broker-b"):
                await bodies(fresh.read("billing"))
            assert await bodies(fresh.read("billing", DeadLetterSelection(broker_name="broker-a"))) == [
                b"a0",
                b"a1",
                b"a2",
            ]


async def test_a_group_whose_broker_is_away_is_told_with_the_reason(monkeypatch):
    async with buried() as (_cluster, dead_letters):

        async def stats(topic):
            raise RequestTimeout(f"nobody tells of {topic}")

        monkeypatch.setattr(dead_letters._admin, "topic_stats", stats)
        (found,) = await dead_letters.groups()
        assert (found.count, found.problem) == (None, "nobody tells of %DLQ%billing")


async def test_a_broker_that_stops_giving_letters_ends_the_reading(monkeypatch):
    async with buried(a=1, b=0) as (_cluster, dead_letters):

        async def poll(self, timeout_ms, count_max):
            await asyncio.sleep(0)
            return []

        monkeypatch.setattr(PullConsumer, "poll", poll)
        with pytest.raises(RequestTimeout, match=r"broker-a has given no dead letter at offset 0 of %DLQ%billing"):
            await bodies(dead_letters.read("billing"))


async def test_a_reading_that_waits_for_its_caller_reads_little_ahead(monkeypatch):
    windows = []
    close = PullConsumer.close

    async def note(self):
        windows.append(self._settings.window_size_max)
        await close(self)

    monkeypatch.setattr(PullConsumer, "close", note)
    async with buried(a=1, b=0) as (_cluster, dead_letters):
        assert [letter async for letter in dead_letters.read("billing")]
        assert [letter async for letter in dead_letters.resend("billing")]
    assert windows == [WINDOW_SIZE, WINDOW_SIZE]


async def test_an_unfinished_reading_ends_with_its_client(monkeypatch):
    closed = []
    close = PullConsumer.close

    async def note(self):
        await close(self)
        closed.append(self)

    async with buried(a=2, b=0) as (_cluster, dead_letters):
        monkeypatch.setattr(PullConsumer, "close", note)
        letters = dead_letters.resend("billing")
        await anext(letters)
        await dead_letters.close()
        assert len(closed) == 1
        await letters.aclose()


async def test_who_closes_a_client_that_is_closing_returns_when_it_is_closed(monkeypatch):
    gate, close = asyncio.Event(), ConnectionPool.close

    async def close_late(self):
        if any(self is client._session.pool for client in clients):
            await gate.wait()
        await close(self)

    async with buried(a=2, b=0) as (_cluster, dead_letters):
        letters = dead_letters.resend("billing")
        await anext(letters)
        clients = tuple(dead_letters._clients)
        assert len(clients) == 2
        with monkeypatch.context() as slow:
            slow.setattr(ConnectionPool, "close", close_late)
            firsts = [asyncio.ensure_future(client.close()) for client in clients]
            await until(lambda: not any(client._session.is_open for client in clients))
            second = asyncio.ensure_future(dead_letters.close())
            await asyncio.wait((second,), timeout=0.2)
            assert not second.done()
            gate.set()
            await second
            assert all(client._session._is_closed for client in clients)
            await asyncio.gather(*firsts)
        await letters.aclose()
