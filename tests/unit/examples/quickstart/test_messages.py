"""Flights go into a topic, and the summary comes out of another one."""

from __future__ import annotations

from pathlib import Path

import orjson

from examples.quickstart.messages import QUEUE_COUNT, Run, create_topics, publish, receive_summary
from orbitmq import Message
from orbitmq.blocking import Producer, PullConsumer
from orbitmq.net.loop import run as run_loop


def test_topics_are_made_and_flights_arrive_with_their_key(rocketmq, table):
    run = Run("1", Path(), rocketmq.name_servers)
    shown = {}
    run_loop(create_topics(run))
    count = run_loop(publish(run, table, 12, shown.__setitem__, lambda: 0))

    with PullConsumer("tests", rocketmq.name_servers) as consumer:
        queues = consumer.queues("flights-1")
        consumer.assign(queues)
        found = []
        while len(found) < count:
            found += consumer.poll()
    assert (count, shown["published"], len(queues)) == (4, 4, QUEUE_COUNT)
    assert sorted(message.keys for message in found)[0] == ("B6725-2013-02-01",)


def test_the_summary_is_sorted_by_flights(rocketmq):
    run = Run("2", Path(), rocketmq.name_servers)
    run_loop(create_topics(run))
    with Producer("tests", rocketmq.name_servers) as producer:
        for carrier, flights in (("EV", 1), ("UA", 2)):
            producer.send(Message(run.summary_topic, orjson.dumps({"carrier": carrier, "flights": flights})))

    assert [row["carrier"] for row in receive_summary(run, 2)] == ["UA", "EV"]
