import asyncio

import pytest

from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, InvalidExpression, RemoteRefused, RouteNotFound
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import PullMessage, PullSysFlag, QueryConsumerOffset, SearchOffset, UpdateConsumerOffset
from waiting import until


def consumer(cluster, **settings):
    return PullConsumer("auditors", cluster.name_servers, **settings)


def queue(number, broker="broker-a"):
    return MessageQueue("orders", broker, number)


async def poll(reader, count):
    found = []
    while len(found) < count:
        found += await reader.poll()
    return [message.body for message in found]


async def poll_on(reader):
    async with asyncio.timeout(30):
        while True:
            await reader.poll(timeout_ms=20)


async def test_assigned_queues_are_read_in_order(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    cluster.a.put("orders", 0, b"1", b"2")
    cluster.b.put("orders", 1, b"3")
    async with consumer(cluster) as reader:
        queues = await reader.queues("orders")
        assert queues == [queue(0), queue(1), queue(0, "broker-b"), queue(1, "broker-b")]
        reader.assign(queues)
        assert reader.assignment == set(queues)
        found = await poll(reader, 3)
    assert sorted(found) == [b"1", b"2", b"3"]
    assert found.index(b"1") < found.index(b"2")


async def test_a_poll_waits_for_messages_and_gives_up_in_time(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        assert await reader.poll(timeout_ms=1) == []
        polling = asyncio.create_task(reader.poll(timeout_ms=20_000))
        await until(lambda: cluster.a.held)
        cluster.a.put("orders", 0, b"1")
        assert [message.body for message in await polling] == [b"1"]


async def test_a_poll_gives_no_more_than_is_asked_for(cluster):
    cluster.fill(b"1", b"2", b"3")
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        assert len(await reader.poll(count_max=2)) == 2
        assert reader.position(queue(0)) == 2
        assert len(await reader.poll(count_max=2)) == 1


async def test_a_queue_begins_where_it_was_sought(cluster):
    cluster.topic("orders", count=1)
    for number in range(5):
        cluster.a.put("orders", 0, str(number).encode(), stored_at_ms=100 * number)
    cluster.a.min_offsets["orders", 0] = 1
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        reader.seek(queue(0), 3)
        assert await poll(reader, 2) == [b"3", b"4"]
        assert await reader.seek_to_begin(queue(0)) == 1
        assert await poll(reader, 4) == [b"1", b"2", b"3", b"4"]
        assert await reader.seek_to_timestamp(queue(0), 150) == 2
        assert await poll(reader, 3) == [b"2", b"3", b"4"]
        assert await reader.seek_to_end(queue(0)) == 5
        cluster.a.put("orders", 0, b"5")
        assert await poll(reader, 1) == [b"5"]


async def test_offsets_of_queues_are_told(cluster):
    cluster.fill(b"1", b"2", stored_at_ms=7)
    cluster.a.min_offsets["orders", 0] = 1
    async with consumer(cluster) as reader:
        assert await reader.offsets([queue(0)]) == {queue(0): (1, 2)}
        assert await reader.offset_at(queue(0), 8) == 2


async def test_committed_offsets_are_where_the_group_goes_on(cluster):
    cluster.fill(b"1", b"2", b"3")
    async with consumer(cluster) as reader:
        assert await reader.committed(queue(0)) is None
        reader.assign([queue(0)])
        await reader.poll(count_max=2)
        await reader.commit()
        assert await reader.committed(queue(0)) == 2
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        assert await poll(reader, 1) == [b"3"]
        await reader.commit({queue(0): 1})
    assert cluster.a.offsets["auditors", "orders", 0] == 1


async def test_a_commit_that_a_broker_refuses_is_an_error(cluster):
    cluster.topic("orders", count=1)
    cluster.a.refusals[UpdateConsumerOffset] = [ResponseCode.SYSTEM_ERROR]
    async with consumer(cluster) as reader:
        with pytest.raises(RemoteRefused):
            await reader.commit({queue(0): 1})


@pytest.mark.parametrize("code", [ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR])
async def test_a_poll_of_queues_that_no_broker_gives_says_so_until_one_does(cluster, code):
    cluster.topic("orders", count=1)
    cluster.a.refusals[PullMessage] = [code] * 10_000
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        with pytest.raises(RemoteRefused) as refused:
            await poll_on(reader)
        assert refused.value.code == code
        cluster.a.refusals[PullMessage].clear()
        cluster.a.put("orders", 0, b"1")
        assert await poll(reader, 1) == [b"1"]


async def test_a_poll_of_a_broker_that_is_only_busy_waits_for_it(cluster):
    cluster.topic("orders", count=1)
    cluster.a.refusals[PullMessage] = [ResponseCode.SYSTEM_BUSY] * 10_000
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        await until(lambda: reader._puller(queue(0)).refusal is not None)
        assert await reader.poll(timeout_ms=20) == []


@pytest.mark.parametrize(("topic", "broker"), [("nowhere", "broker-a"), ("orders", "nobody")])
async def test_a_poll_of_unknown_queues_says_so(cluster, topic, broker):
    cluster.topic("orders", count=1)
    async with consumer(cluster) as reader:
        reader.assign([MessageQueue(topic, broker, 0)])
        with pytest.raises(RouteNotFound):
            await poll_on(reader)


async def test_a_caller_that_polls_or_commits_gets_to_know_that_the_consumer_was_closed(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        polling = asyncio.ensure_future(reader.poll(timeout_ms=600_000))
        await until(lambda: cluster.a.held)
    with pytest.raises(ClientError, match="PullConsumer is not open"):
        await polling
    with pytest.raises(ClientError, match="PullConsumer is not open"):
        await reader.commit()


async def test_one_queue_that_is_refused_leaves_the_others_to_poll(cluster):
    cluster.topic("orders", count=2)
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        await until(lambda: cluster.a.held)
        cluster.a.refusals[PullMessage] = [ResponseCode.TOPIC_NOT_EXIST] * 10_000
        reader.assign([queue(0), queue(1)])
        await until(lambda: reader._puller(queue(1)).refusal is not None)
        assert await reader.poll(timeout_ms=20) == []


async def test_topics_that_are_read_no_more_are_asked_for_no_more(cluster):
    cluster.topic("orders", count=2)
    async with consumer(cluster) as reader:
        watched = reader._session.routes.is_watched
        reader.assign([queue(0), queue(1)])
        reader.assign([queue(1)])
        assert watched("orders")
        reader.assign([])
        assert not watched("orders")
        cluster.a.put("orders", 0, b"1")
        reader.assign([queue(0)])
        assert await poll(reader, 1) == [b"1"]


async def test_without_an_offset_the_settings_say_where_to_begin(cluster):
    cluster.fill(b"1")
    async with consumer(cluster, consume_from=ConsumeFrom.LAST) as reader:
        reader.assign([queue(0)])
        await until(lambda: cluster.a.held)
        cluster.a.put("orders", 0, b"2")
        assert await poll(reader, 1) == [b"2"]


async def test_an_assignment_replaces_the_one_before(cluster):
    cluster.topic("orders", count=3)
    for number in range(3):
        cluster.a.put("orders", number, str(number).encode())
    async with consumer(cluster) as reader:
        reader.assign([queue(0), queue(1)])
        await poll(reader, 2)
        reader.assign([queue(1), queue(2)])
        assert reader.assignment == {queue(1), queue(2)}
        assert await poll(reader, 1) == [b"2"]
        with pytest.raises(InvalidArgument, match="assign"):
            reader.position(queue(0))
        with pytest.raises(InvalidArgument, match="queue_offset: -1 is not allowed, expected a whole number from 0 to"):
            reader.seek(queue(1), -1)


async def test_tags_are_filtered(cluster):
    cluster.fill(b"1", tag="A")
    cluster.a.put("orders", 0, b"2", tag="B")
    async with consumer(cluster, tag="B") as reader:
        reader.assign([queue(0)])
        assert await poll(reader, 1) == [b"2"]


async def test_an_expression_goes_to_the_broker_with_every_pull(cluster):
    cluster.topic("orders", count=1)
    with pytest.raises(InvalidExpression, match="line 1, column 8"):
        consumer(cluster, sql="price >")
    async with consumer(cluster, sql="price > 10") as reader:
        reader.assign([queue(0)])
        await until(lambda: cluster.a.held)
        pull = cluster.a.held[0].header
        assert (pull.subscription, pull.expression_type) == ("price > 10", "SQL92")


async def test_a_refusal_that_no_repetition_changes_ends_a_poll_at_the_first_answer(cluster):
    cluster.topic("orders", count=2)
    cluster.a.refusals[PullMessage] = [ResponseCode.SUBSCRIPTION_PARSE_FAILED]
    async with consumer(cluster) as reader:
        reader.assign([queue(0), queue(1)])
        with pytest.raises(RemoteRefused, match="code 23"):
            await reader.poll(60_000)


async def test_queues_of_a_topic_that_grew_are_seen(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster) as reader:
        assert len(await reader.queues("orders")) == 1
        cluster.topic("orders", count=2)
        assert len(await reader.queues("orders")) == 2
        with pytest.raises(RouteNotFound):
            await reader.queues("nowhere")


async def test_it_is_no_member_of_the_group(cluster):
    cluster.fill(b"1")
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        await poll(reader, 1)
    assert cluster.a.heartbeats == []


@pytest.mark.parametrize(
    "use",
    [
        lambda reader: reader.queues("orders"),
        lambda reader: reader.begin_offset(queue(0)),
        lambda reader: reader.end_offset(queue(0)),
        lambda reader: reader.offset_at(queue(0), 0),
        lambda reader: reader.committed(queue(0)),
        lambda reader: reader.commit({queue(0): 1}),
        lambda reader: reader.poll(),
    ],
)
async def test_nothing_is_asked_before_the_consumer_is_open(cluster, use):
    cluster.topic("orders", count=1)
    with pytest.raises(ClientError, match="not open"):
        await use(consumer(cluster))
    with pytest.raises(ClientError, match="not open"):
        consumer(cluster).assign([queue(0)])


async def test_after_its_end_a_consumer_says_that_it_is_not_open_rather_than_that_nothing_is_assigned(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
    for use in (lambda: reader.seek(queue(0), 1), lambda: reader.position(queue(0))):
        with pytest.raises(ClientError, match="not open"):
            use()


async def test_what_the_caller_did_not_commit_is_stored_nowhere(cluster):
    cluster.fill(b"1")
    async with consumer(cluster) as reader:
        reader.assign([queue(0)])
        assert await poll(reader, 1) == [b"1"]
    assert cluster.a.offsets == {}
    pulls = [request for request in cluster.a.requests if isinstance(request, PullMessage)]
    assert not any(pull.sys_flag & PullSysFlag.COMMIT_OFFSET for pull in pulls)
    (asked,) = [request for request in cluster.a.requests if isinstance(request, QueryConsumerOffset)]
    assert asked.set_zero_if_not_found is False


async def test_a_time_is_where_reading_begins(cluster):
    cluster.fill(b"1", stored_at_ms=76)
    cluster.a.put("orders", 0, b"2", stored_at_ms=77)
    async with consumer(cluster, consume_from=ConsumeFrom.TIMESTAMP, consume_from_ms=77) as reader:
        reader.assign([queue(0)])
        assert await poll(reader, 1) == [b"2"]
    (asked,) = [request for request in cluster.a.requests if isinstance(request, SearchOffset)]
    assert asked.timestamp_ms == 77


def test_a_time_to_begin_at_has_to_be_told():
    with pytest.raises(
        InvalidArgument, match=r"^consume_from_ms: None .* in ms since 1970, for ConsumeFrom\.TIMESTAMP$"
    ):
        PullConsumer("g", "a:1", consume_from=ConsumeFrom.TIMESTAMP)


async def test_polling_without_an_assignment_is_an_error(cluster):
    async with consumer(cluster) as reader:
        with pytest.raises(ClientError, match="assign"):
            await reader.poll()
        with pytest.raises(InvalidArgument, match="count_max"):
            await reader.poll(count_max="x")
