import asyncio
import logging
import time

import pytest

from orbitmq.client.consume.offset_stores import decode_offsets
from orbitmq.client.push_consumer import PushConsumer
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidExpression, NoNameServer, RemoteRefused
from orbitmq.model.group import ConsumeFrom, MessageModel
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import PullMessage, UpdateConsumerOffset
from waiting import until


def consumer(cluster, topic="orders", *, group="takers", tag="*", **settings):
    found = PushConsumer(group, cluster.name_servers, **{"retry_delay_ms": 1, **settings})
    found.subscribe(topic, tag)
    return found


async def take(reader, count, *, commit=True):
    """Return the bodies of the next `count` messages."""
    bodies = []
    async for batch in reader:
        bodies += [message.body for message in batch]
        if commit:
            batch.commit()
        if len(bodies) >= count:
            return bodies
    return bodies


def subscribed_topics(heartbeat):
    return {subscription.topic for subscription in subscriptions_of(heartbeat)}


def subscriptions_of(heartbeat):
    return heartbeat.consumers[0].subscriptions


async def test_messages_that_are_there_and_messages_to_come_arrive(cluster):
    cluster.topic("orders", cluster.a, cluster.b, count=2)
    cluster.a.put("orders", 0, b"1", b"2")
    cluster.b.put("orders", 1, b"3")
    async with consumer(cluster) as reader:
        assert sorted(await take(reader, 3)) == [b"1", b"2", b"3"]
        cluster.b.put("orders", 0, b"4")
        assert await take(reader, 1) == [b"4"]


async def test_a_batch_is_one_queues_messages_in_order(cluster):
    cluster.topic("orders", count=2)
    for number in range(50):
        cluster.a.put("orders", number % 2, str(number).encode())
    async with consumer(cluster, batch_count_max=10) as reader:
        found = {0: [], 1: []}
        async for batch in reader:
            assert len(batch) <= 10
            assert {message.queue_id for message in batch} == {batch.queue.queue_id}
            assert batch[0].broker_name == batch.queue.broker_name == "broker-a"
            found[batch.queue.queue_id] += [int(message.body) for message in batch]
            batch.commit()
            if sum(map(len, found.values())) == 50:
                break
    assert found == {0: list(range(0, 50, 2)), 1: list(range(1, 50, 2))}


async def test_only_wanted_tags_arrive_even_where_hashes_clash(cluster):
    cluster.fill(b"1", tag="Aa")
    cluster.a.put("orders", 0, b"2", tag="BB")
    cluster.a.put("orders", 0, b"3", tag="C")
    cluster.a.put("orders", 0, b"4", tag="D")
    async with consumer(cluster, tag="Aa || D") as reader:
        assert await take(reader, 2) == [b"1", b"4"]
        await reader.commit_offsets()
    assert cluster.a.offsets["takers", "orders", 0] == 4


async def test_a_batch_that_is_not_committed_comes_again_from_the_broker_and_those_behind_it_go_on(cluster):
    cluster.fill(b"1", b"2", b"3")
    cluster.topic("%RETRY%takers", count=1)
    seen = []
    async with consumer(cluster, batch_count_max=2) as reader:
        async for batch in reader:
            seen.append(([message.body for message in batch], batch.attempt))
            if len(seen) > 1:
                batch.commit()
            if len(seen) == 4:
                break
    assert seen[0] == ([b"1", b"2"], 1)
    assert sorted(seen[1:]) == [([b"1"], 2), ([b"2"], 2), ([b"3"], 1)]
    assert cluster.a.offsets["takers", "orders", 0] == 3


async def test_in_order_a_batch_that_is_not_committed_comes_again_before_the_rest_message_by_message(cluster):
    cluster.fill(b"1", b"2", b"3")
    seen = []
    async with consumer(cluster, batch_count_max=2, ordered=True) as reader:
        async for batch in reader:
            seen.append(([message.body for message in batch], batch.attempt))
            if len(seen) > 1:
                batch.commit()
            if len(seen) == 4:
                break
    assert seen == [([b"1", b"2"], 1), ([b"1"], 2), ([b"2"], 2), ([b"3"], 1)]


async def test_what_a_handler_has_acknowledged_does_not_come_again_when_it_raises(cluster):
    cluster.fill(b"1", b"2", b"3")
    seen = []

    def handle(batch):
        for message in batch:
            seen.append((message.body, message.attempt))
            if message.body == b"2" and message.attempt == 1:
                raise ValueError("not yet")
            batch.ack(message)

    async with consumer(cluster, handler=handle, ordered=True, commit_interval_ms=1):
        await until(lambda: cluster.a.offsets.get(("takers", "orders", 0)) == 3)
    assert seen == [(b"1", 1), (b"2", 1), (b"2", 2), (b"3", 2)]


async def test_a_poison_message_stops_nothing_and_ends_with_the_dead_letters(cluster, caplog):
    cluster.fill(*(b"%d" % number for number in range(6)))
    cluster.topic("%RETRY%takers", count=1)
    seen = []

    def handle(batch):
        seen.append((batch[0].body, batch.attempt))
        if batch[0].body == b"0":
            raise ValueError("poison")

    async with consumer(cluster, batch_count_max=1, handler=handle, max_attempts=3, commit_interval_ms=1):
        await until(lambda: cluster.a.bodies("%DLQ%takers"))
        await until(lambda: cluster.a.offsets.get(("takers", "orders", 0)) == 6)
        await until(lambda: cluster.a.offsets.get(("takers", "%RETRY%takers", 0)) == 2)
    assert sorted(seen) == [(b"0", 1), (b"0", 2), (b"0", 3), *((b"%d" % number, 1) for number in range(1, 6))]
    assert cluster.a.bodies("%DLQ%takers") == [b"0"]
    assert any("is given up after 3 attempts" in text for text in caplog.messages)


async def test_in_order_a_poison_message_holds_its_queue_only_for_its_attempts(cluster):
    cluster.fill(b"0", b"1")
    seen = []

    def handle(batch):
        seen.append((batch[0].body, batch.attempt))
        if batch[0].body == b"0":
            raise ValueError("poison")

    settings = {"batch_count_max": 1, "ordered": True, "max_attempts": 3, "commit_interval_ms": 1}
    async with consumer(cluster, handler=handle, **settings):
        await until(lambda: cluster.a.offsets.get(("takers", "orders", 0)) == 2)
    assert seen == [(b"0", 1), (b"0", 2), (b"0", 3), (b"1", 1)]
    assert cluster.a.bodies("%DLQ%takers") == [b"0"]


async def test_handlers_of_messages_keep_each_keys_order(cluster):
    cluster.topic("orders", count=1)
    for number in range(12):
        cluster.a.put("orders", 0, b"%d" % number, properties={"__SHARDINGKEY": "abc"[number % 3]})
    running, most, seen = set(), 0, {"a": [], "b": [], "c": []}

    async def handle(message):
        nonlocal most
        assert message.sharding_key not in running
        running.add(message.sharding_key)
        most = max(most, len(running))
        for _ in range(5):
            await asyncio.sleep(0)
        running.remove(message.sharding_key)
        seen[message.sharding_key].append(int(message.body))

    async with consumer(cluster, message_handler=handle, commit_interval_ms=1):
        await until(lambda: cluster.a.offsets.get(("takers", "orders", 0)) == 12)
    assert seen == {"a": [0, 3, 6, 9], "b": [1, 4, 7, 10], "c": [2, 5, 8, 11]}
    assert most == 3


async def test_members_that_consume_in_order_hand_queues_over_when_their_work_is_done(cluster):
    cluster.topic("orders", count=2)
    for queue_id in (0, 1):
        cluster.a.put("orders", queue_id, *(b"%d" % number for number in range(3)))
    async with consumer(cluster, ordered=True, batch_count_max=1) as first:
        batches = [await first.next_batch() for _ in range(2)]
        async with consumer(cluster, ordered=True, batch_count_max=1) as second:
            await until(lambda: len(first.assignment) == 1)
            (kept,) = first.assignment
            assert not second.assignment
            for batch in batches:
                assert batch.commit()
            moved = await second.next_batch()
            assert moved.queue != kept
            assert moved[0].body == b"1"


async def test_broadcasting_tries_again_in_place_and_drops_at_last(cluster, tmp_path, caplog):
    cluster.fill(b"0", b"1")
    seen = []

    def handle(batch):
        seen.append((batch[0].body, batch.attempt))
        if batch[0].body == b"0":
            raise ValueError("poison")

    settings = {"message_model": MessageModel.BROADCASTING, "offset_dir": tmp_path, "consume_from": ConsumeFrom.FIRST}
    async with consumer(cluster, handler=handle, batch_count_max=1, max_attempts=2, **settings):
        await until(lambda: len(seen) == 3)
    assert seen == [(b"0", 1), (b"0", 2), (b"1", 1)]
    assert any("broadcasting has no dead letters" in text for text in caplog.messages)


async def test_a_deferred_batch_stays_open_and_holds_its_queue_only(cluster):
    cluster.topic("orders", count=2)
    cluster.a.put("orders", 0, b"1")
    async with consumer(cluster, batch_count_max=1) as reader:
        batches = aiter(reader)
        first = await anext(batches)
        first.defer()
        cluster.a.put("orders", 0, b"2")
        cluster.a.put("orders", 1, b"3")
        second = await anext(batches)
        assert second[0].body == b"3"
        assert second.commit()
        assert first.commit()
        assert not first.commit()
        assert (await anext(batches))[0].body == b"2"


async def test_offsets_are_stored_by_and_by_and_at_the_end(cluster):
    cluster.fill(b"1", b"2")
    async with consumer(cluster, batch_count_max=1, commit_interval_ms=1) as reader:
        await take(reader, 1)
        await until(lambda: cluster.a.offsets.get(("takers", "orders", 0)) == 1)
        await take(reader, 1)
    assert cluster.a.offsets["takers", "orders", 0] == 2


async def test_pulls_carry_the_offset_so_that_little_is_repeated_after_a_crash(cluster):
    cluster.fill(b"1", b"2")
    async with consumer(cluster, batch_count_max=1, commit_interval_ms=3_600_000) as reader:
        await take(reader, 1)
        await until(lambda: cluster.a.held)
        cluster.a.put("orders", 0, b"3")  # lets the next pull begin
        await until(lambda: cluster.a.offsets.get(("takers", "orders", 0)) == 1)


async def test_a_new_consumer_goes_on_where_the_group_stopped(cluster):
    cluster.fill(b"1", b"2", b"3")
    async with consumer(cluster, batch_count_max=1) as reader:
        await take(reader, 2)
    async with consumer(cluster) as reader:
        assert await take(reader, 1) == [b"3"]


async def test_what_was_handed_out_but_not_committed_comes_again_after_a_restart(cluster):
    cluster.fill(b"1", b"2")
    async with consumer(cluster, batch_count_max=1) as reader:
        await take(reader, 1, commit=False)
    async with consumer(cluster) as reader:
        assert await take(reader, 2) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("consume_from", "first"), [(ConsumeFrom.FIRST, b"1"), (ConsumeFrom.TIMESTAMP, b"2"), (ConsumeFrom.LAST, b"4")]
)
async def test_a_group_without_an_offset_begins_where_it_is_told(cluster, consume_from, first):
    cluster.topic("orders", count=1)
    for body, stored_at_ms in ((b"0", 50), (b"1", 100), (b"2", 200), (b"3", 300)):
        cluster.a.put("orders", 0, body, stored_at_ms=stored_at_ms)
    cluster.a.min_offsets["orders", 0] = 1  # the first message has expired
    async with consumer(cluster, consume_from=consume_from, consume_from_ms=150, batch_count_max=1) as reader:
        await until(lambda: ("takers", "orders", 0) in cluster.a.offsets)  # the beginning is stored immediately
        cluster.a.put("orders", 0, b"4")
        assert await take(reader, 1) == [first]


async def test_two_consumers_share_the_queues_and_the_one_that_stays_takes_over(cluster):
    cluster.topic("orders", cluster.a, count=4)
    async with consumer(cluster) as first:
        assert len(await first.assigned()) == 4
        async with consumer(cluster) as second:
            await until(lambda: len(first.assignment) == len(second.assignment) == 2)
            assert not first.assignment & second.assignment
        await until(lambda: len(first.assignment) == 4)


async def test_a_queue_that_moves_leaves_its_offset_behind(cluster):
    cluster.topic("orders", cluster.a, count=2)
    cluster.a.put("orders", 0, b"1", b"2")
    cluster.a.put("orders", 1, b"3", b"4")
    async with consumer(cluster, batch_count_max=1) as first:
        taken = await take(first, 2)
        async with consumer(cluster, batch_count_max=1) as second:
            await until(lambda: len(first.assignment) == len(second.assignment) == 1)
            rest = await asyncio.gather(take(first, 1), take(second, 1))
    assert sorted(taken + [body for part in rest for body in part]) == [b"1", b"2", b"3", b"4"]


async def test_every_broadcasting_consumer_gets_everything_and_keeps_its_own_place(cluster, tmp_path):
    cluster.topic("orders", count=2)
    cluster.a.put("orders", 0, b"1")
    cluster.a.put("orders", 1, b"2")
    settings = {"message_model": MessageModel.BROADCASTING, "offset_dir": tmp_path, "consume_from": ConsumeFrom.FIRST}
    async with (
        consumer(cluster, instance="x", **settings) as first,
        consumer(cluster, instance="y", **settings) as second,
    ):
        assert sorted(await take(first, 2)) == [b"1", b"2"]
        assert sorted(await take(second, 2)) == [b"1", b"2"]
    file = tmp_path / "x" / "takers.json"
    assert decode_offsets(file.read_bytes()) == {MessageQueue("orders", "broker-a", number): 1 for number in (0, 1)}
    cluster.a.put("orders", 0, b"3")
    async with consumer(cluster, instance="x", **settings) as first:
        assert await take(first, 1) == [b"3"]
    assert cluster.a.offsets == {}


async def test_a_broadcasting_consumer_reads_all_of_a_queue_that_comes_while_it_is_open(cluster, tmp_path):
    """Of a topic that its first send made, and of a broker that was added, everything sent before the next poll was lost."""
    cluster.topic("bills", cluster.a, count=1)
    cluster.a.put("bills", 0, b"sent before")
    async with consumer(
        cluster, poll_interval_ms=1, message_model=MessageModel.BROADCASTING, offset_dir=tmp_path
    ) as reader:
        reader.subscribe("bills")
        await until(lambda: any(queue.topic == "bills" for queue in reader.assignment))
        cluster.b.put("bills", 0, b"added")
        cluster.a.put("orders", 0, b"created")
        cluster.topic("bills", cluster.a, cluster.b, count=1)
        cluster.topic("orders", cluster.a, count=1)
        assert sorted(await take(reader, 2)) == [b"added", b"created"]


async def test_a_route_that_grows_brings_its_queues(cluster):
    cluster.topic("orders", cluster.a, count=1)
    async with consumer(cluster, poll_interval_ms=1) as reader:
        assert len(await reader.assigned()) == 1
        cluster.topic("orders", cluster.a, cluster.b, count=1)
        cluster.b.put("orders", 0, b"1")
        assert await take(reader, 1) == [b"1"]


async def test_a_broker_that_forgot_its_groups_is_told_again_and_nothing_is_given_up(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster) as reader:
        queues = await reader.assigned()
        cluster.a.members.clear()
        cluster.a.notify("takers")
        await until(lambda: reader.client_id in cluster.a.members.get("takers", {}))
        assert reader.assignment == queues


async def test_a_topic_that_does_not_exist_yet_is_waited_for(cluster, caplog):
    cluster.topic("other")
    async with consumer(cluster, rebalance_interval_ms=1) as reader:
        await until(lambda: cluster.name_server.asked.count("orders") > 3)
        cluster.fill(b"1")
        assert await take(reader, 1) == [b"1"]
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


async def test_topics_may_come_and_go_while_consuming(cluster):
    cluster.topic("orders", count=1)
    cluster.topic("bills", count=1)
    cluster.a.put("bills", 0, b"1")
    async with PushConsumer("takers", cluster.name_servers) as reader:
        reader.subscribe("orders")
        assert await reader.assigned() == {MessageQueue("orders", "broker-a", 0)}
        reader.subscribe("bills", "*")
        assert await take(reader, 1) == [b"1"]
        reader.unsubscribe("orders")
        await until(lambda: reader.assignment == {MessageQueue("bills", "broker-a", 0)})
        await until(lambda: subscribed_topics(cluster.a.heartbeats[-1]) == {"bills", "%RETRY%takers"})


async def test_a_changed_subscription_counts_from_the_next_pull(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster, tag="A") as reader:
        await until(lambda: cluster.a.held)
        reader.subscribe("orders", "B")
        cluster.a.put("orders", 0, b"1", tag="A")
        cluster.a.put("orders", 0, b"2", tag="B")
        assert await take(reader, 1) == [b"2"]


async def test_an_expression_goes_to_the_broker_with_pulls_and_heartbeats(cluster):
    cluster.topic("orders", count=1)
    async with PushConsumer("takers", cluster.name_servers) as reader:
        with pytest.raises(InvalidExpression, match="line 1, column 8"):
            reader.subscribe("orders", sql="price >")
        reader.subscribe("orders", sql="price > 10")
        await until(lambda: cluster.a.held and cluster.a.heartbeats)
        pull = next(call.header for call in cluster.a.held if call.header.topic == "orders")
        assert (pull.subscription, pull.expression_type) == ("price > 10", "SQL92")
        (info,) = cluster.a.heartbeats[-1].consumers
        told = {found.topic: (found.expression, found.expression_type) for found in info.subscriptions}
        assert told == {"orders": ("price > 10", "SQL92"), "%RETRY%takers": ("*", "TAG")}


FINAL = ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_refusal_that_no_repetition_changes_ends_the_wait_for_a_batch_at_the_first_answer(cluster):
    cluster.topic("orders", count=1)
    cluster.a.refusals[PullMessage] = [FINAL]
    async with consumer(cluster) as reader:
        with pytest.raises(RemoteRefused, match="code 23"):
            await reader.next_batch()
        cluster.a.put("orders", 0, b"1")
        assert await take(reader, 1) == [b"1"], "it goes on once the broker gives messages"


async def test_a_refusal_that_no_repetition_changes_ends_the_run_of_a_consumer_with_a_handler(cluster):
    cluster.topic("orders", count=1)
    cluster.a.refusals[PullMessage] = [FINAL]
    async with consumer(cluster, handler=lambda batch: None) as reader:
        with pytest.raises(RemoteRefused, match="code 23"):
            await reader.run()


async def test_messages_that_java_members_sent_back_come_under_their_own_topic(cluster):
    cluster.topic("orders", count=1)
    cluster.topic("%RETRY%takers", count=1)
    cluster.a.put("%RETRY%takers", 0, b"1", properties={"RETRY_TOPIC": "orders"})
    async with consumer(cluster) as reader:
        batch = await reader.next_batch()
        assert (batch[0].topic, batch.queue.topic) == ("orders", "%RETRY%takers")
        batch.commit()


async def test_pulling_pauses_while_the_window_is_full(cluster):
    cluster.fill(*(b"x" for _ in range(30)))

    def pulled():
        return [request.queue_offset for request in cluster.a.requests if isinstance(request, PullMessage)]

    async with consumer(cluster, window_count_max=10, pull_count_max=5, batch_count_max=5) as reader:
        await until(lambda: len(pulled()) == 2)
        for _ in range(100):
            await asyncio.sleep(0)
        assert pulled() == [0, 5]
        assert await take(reader, 30) == [b"x"] * 30


async def test_an_offset_beyond_the_end_is_moved_back(cluster):
    cluster.fill(b"1")
    cluster.a.offsets["takers", "orders", 0] = 100
    async with consumer(cluster) as reader:
        await until(lambda: cluster.a.held)
        cluster.a.put("orders", 0, b"2")
        assert await take(reader, 1) == [b"2"]


async def test_a_broker_that_restarts_is_read_again_and_gets_a_heartbeat(cluster):
    cluster.fill(b"1")
    async with consumer(cluster) as reader:
        assert await take(reader, 1) == [b"1"]
        await cluster.a.stop()
        cluster.a.heartbeats.clear()
        await cluster.a.start()
        cluster.a.put("orders", 0, b"2")
        assert await take(reader, 1) == [b"2"]
        await until(lambda: cluster.a.heartbeats)


async def test_name_servers_may_be_away_while_consuming(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster, poll_interval_ms=1) as reader:
        await reader.assigned()
        await cluster.name_server.stop()
        cluster.a.put("orders", 0, b"1")
        assert await take(reader, 1) == [b"1"]
        await cluster.name_server.start()
        cluster.topic("orders", cluster.a, cluster.b, count=1)
        await until(lambda: len(reader.assignment) == 2)


async def test_an_offset_that_cannot_be_stored_is_stored_later(cluster, caplog):
    cluster.fill(b"1")
    async with consumer(cluster, commit_interval_ms=1) as reader:
        await reader.assigned()
        cluster.a.refusals[UpdateConsumerOffset] = [ResponseCode.SYSTEM_ERROR]
        await take(reader, 1)
        await until(lambda: cluster.a.offsets.get(("takers", "orders", 0)) == 1)
    assert any("is not stored yet" in message for message in caplog.messages)


async def test_the_group_learns_of_the_consumer_and_of_its_end(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster, tag="A") as reader:
        await reader.assigned()
        (client_id,) = cluster.a.members["takers"]
        assert client_id == reader.client_id
        subscriptions = {s.topic: s for s in cluster.a.members["takers"][client_id].subscriptions}
        assert subscriptions["orders"].tags == {"A"}
    assert cluster.a.members["takers"] == {}
    assert cluster.a.unregistered[0].consumer_group == "takers"


async def test_without_name_server_opening_says_so(cluster):
    await cluster.name_server.stop()
    with pytest.raises(NoNameServer, match=cluster.name_server.address):
        async with consumer(cluster):
            pass


async def test_closing_ends_every_loop(cluster):
    cluster.topic("orders", count=1)
    reader = consumer(cluster)
    await reader.open()
    await reader.assigned()
    loops = [asyncio.create_task(take(reader, 1)) for _ in range(3)]
    waiting = asyncio.create_task(reader.run())
    await asyncio.sleep(0)
    await reader.close()
    await reader.close()
    assert await asyncio.gather(*loops) == [[], [], []]
    await waiting
    assert await reader.next_batch(timeout_ms=1) is None


async def test_a_second_close_returns_when_all_is_done(cluster):
    cluster.fill(b"1")
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def handle(_message):
        begun.set()
        await may_end.wait()

    async with consumer(cluster, message_handler=handle) as reader:
        await begun.wait()
        first = asyncio.create_task(reader.close())
        await reader.run()
        second = asyncio.create_task(reader.close())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not second.done()
        may_end.set()
        await second
        assert cluster.a.offsets["takers", "orders", 0] == 1
    await first


async def test_closing_cuts_a_handler_off_after_the_time_that_is_given_and_says_so(cluster, caplog):
    cluster.fill(b"1")
    begun, is_cut = asyncio.Event(), asyncio.Event()

    async def handle(_batch):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_cut.set()

    async with consumer(cluster, handler=handle, close_timeout_ms=10):
        await begun.wait()
    assert is_cut.is_set()
    assert "1 handlers still run 10 ms after the consumer was closed (close_timeout_ms)" in caplog.text


async def test_a_handler_that_blocks_the_loop_is_named(cluster, caplog, monkeypatch):
    """Heartbeats stopped, the group took its queues, and everything was delivered again without a word of why."""
    monkeypatch.setattr("orbitmq.client.push_consumer.STALL_CHECK_MS", 1)
    monkeypatch.setattr("orbitmq.client.push_consumer.STALL_MS", 50)
    cluster.fill(b"1")

    async def slow_handler(_batch):
        time.sleep(0.1)  # the claim: it blocks

    async with consumer(cluster, handler=slow_handler):
        await until(lambda: "slow_handler block it" in caplog.text)


async def test_next_batch_gives_up_after_its_time(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster) as reader:
        assert await reader.next_batch(timeout_ms=1) is None
        cluster.a.put("orders", 0, b"1")
        batch = await reader.next_batch(timeout_ms=60_000)
        assert [message.body for message in batch] == [b"1"]


async def test_changed_subscriptions_are_told_to_the_brokers_immediately(cluster):
    cluster.topic("orders", count=1)
    cluster.topic("bills", count=1)

    def told():
        return {found.topic: found.expression for found in subscriptions_of(cluster.a.heartbeats[-1])}

    hour_ms = 3_600_000
    async with consumer(cluster, heartbeat_interval_ms=hour_ms, rebalance_interval_ms=hour_ms) as reader:
        await reader.assigned()
        reader.subscribe("orders", "B")
        await until(lambda: told()["orders"] == "B")
        reader.subscribe("bills", "C")
        await until(lambda: told().get("bills") == "C")
        reader.unsubscribe("bills")
        await until(lambda: "bills" not in told())


async def test_twenty_queues_are_handled_together_unless_asked_otherwise(cluster):
    cluster.topic("orders", count=25)
    for number in range(25):
        cluster.a.put("orders", number, b"x")
    running, end = [], asyncio.Event()

    async def handle(batch):
        running.append(batch)
        await end.wait()

    async with consumer(cluster, handler=handle):
        await until(lambda: len(running) >= 20)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(running) == 20
        end.set()
        await until(lambda: len(running) == 25)


def test_one_message_and_one_queue_at_a_time_are_enough():
    PushConsumer("g", "a:1", batch_count_max=1, concurrency=1)


async def test_a_program_may_wait_for_the_end_of_its_consumer(cluster):
    cluster.topic("orders")
    async with consumer(cluster, handler=lambda batch: None) as reader:
        running = asyncio.create_task(reader.run())
        await reader.assigned()
        assert not running.done()
    await running


async def test_waiting_without_having_opened_or_without_a_subscription_is_an_error(cluster):
    waits = ((PushConsumer.next_batch, None), (PushConsumer.assigned, None), (PushConsumer.run, print))
    for wait, handler in waits:
        with pytest.raises(ClientError, match="not open"):
            await wait(consumer(cluster, handler=handler))
        async with PushConsumer("takers", cluster.name_servers, handler=handler) as reader:
            with pytest.raises(ClientError, match="subscribe"):
                await wait(reader)


@pytest.mark.parametrize(
    ("topics", "handler", "warned"),
    [([], print, "subscribes to nothing"), (["orders"], None, "the messages are not taken")],
)
async def test_waiting_in_silence_is_told_of(cluster, caplog, monkeypatch, topics, handler, warned):
    monkeypatch.setattr("orbitmq.client.push_consumer.SILENCE_MS", 1)
    cluster.topic("orders")
    reader = PushConsumer("takers", cluster.name_servers, handler=handler)
    for topic in topics:
        reader.subscribe(topic)
    async with reader:
        await until(lambda: warned in caplog.text, 0.001)


async def test_a_consumer_with_a_handler_hands_out_no_batches(cluster):
    cluster.topic("orders", count=1)
    async with consumer(cluster, handler=print) as reader:
        with pytest.raises(ClientError, match="handler"):
            await reader.next_batch()


async def test_a_batch_is_not_settled_from_a_thread(cluster):
    cluster.fill(b"1")
    async with PushConsumer("g", cluster.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe("orders")
        batch = await consumer.next_batch()
        with pytest.raises(ClientError, match="belongs to another event loop"):
            await asyncio.to_thread(batch.commit)
        assert batch.commit()


async def test_one_message_that_is_never_done_lets_no_more_be_pulled_than_the_span_allows(cluster, caplog):
    cluster.fill(*(b"%d" % number for number in range(500)))
    done = []
    may_end = asyncio.Event()

    async def handle(message):
        if message.queue_offset == 3:
            await may_end.wait()
        done.append(message.queue_offset)

    async with PushConsumer(
        "g", cluster.name_servers, consume_from=ConsumeFrom.FIRST, message_handler=handle, window_span_max=50,
        pull_count_max=10,
    ) as consumer:  # fmt: skip
        consumer.subscribe("orders")
        await until(lambda: "(window_span_max)" in caplog.text and max(done, default=0) > 50)
        assert max(done) <= 3 + 50 + 10
        may_end.set()
        await until(lambda: len(done) == 500)


async def test_a_consumer_that_is_closed_takes_no_subscriptions(cluster):
    async with PushConsumer("billing", cluster.name_servers) as consumer:
        consumer.subscribe("orders")
    with pytest.raises(ClientError, match="PushConsumer is closed, for good"):
        consumer.subscribe("others")
