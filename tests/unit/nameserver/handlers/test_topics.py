"""Claims about lists of topics, and about one topic registered and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.model.route import TopicRoute
from orbitmq.model.topic import TopicConfig
from orbitmq.nameserver.handlers.topics import ROUTE_SIZE_MAX
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.headers import (
    DeleteTopicInNameServer,
    GetAllTopics,
    GetTopicsByCluster,
    GetUnitSubscriptionTopics,
    GetUnitSubscriptionUnunitTopics,
    GetUnitTopics,
    RegisterTopicInNameServer,
)

from ..registration.peers import Peers, drain
from ..support import CLUSTER, Asker, asking, queue, registration, topics_of

pytestmark = pytest.mark.real


async def test_lists_can_be_switched_off(tmp_path: Path):
    async with asking(tmp_path, enable_all_topic_list=False, enable_topic_list=False) as asker:
        for header in (
            GetAllTopics(),
            GetTopicsByCluster(cluster="c"),
            GetUnitTopics(),
            GetUnitSubscriptionTopics(),
            GetUnitSubscriptionUnunitTopics(),
        ):
            answer = await asker.ask(header)
            assert (answer.code, answer.remark) == (1, "disable")


async def test_unit_topics_are_told_by_their_flags(asker: Asker):
    configs = {f"T{flag}": TopicConfig(topic=f"T{flag}", topic_sys_flag=flag) for flag in range(4)}
    header, body = registration("a", configs=configs)
    await asker.ask(header, body)
    assert set(await topics_of(asker, GetUnitTopics())) == {"T1", "T3"}
    assert set(await topics_of(asker, GetUnitSubscriptionTopics())) == {"T2", "T3"}
    assert set(await topics_of(asker, GetUnitSubscriptionUnunitTopics())) == {"T2"}


async def test_the_queues_of_one_topic_are_bounded(asker: Asker):
    await asker.register()
    for size, code in ((ROUTE_SIZE_MAX, 0), (ROUTE_SIZE_MAX + 1, 1)):
        body = encode_route(TopicRoute(queues=(queue("a"),))).ljust(size)
        assert (await asker.ask(RegisterTopicInNameServer(topic=f"new{size}"), body)).code == code
    assert set(asker.server.service.tables.topics()) == {"T1", "T2", f"new{ROUTE_SIZE_MAX}"}


async def test_one_topic_is_registered_and_deleted(asker: Asker):
    await asker.register()
    for names, topic in ((("a",), "known"), (("a", "unknown"), "mixed")):
        body = encode_route(TopicRoute(queues=tuple(queue(name) for name in names)))
        assert (await asker.ask(RegisterTopicInNameServer(topic=topic), body)).code == 0
    assert (await asker.ask(RegisterTopicInNameServer(topic="empty"))).code == 0
    assert (await asker.ask(RegisterTopicInNameServer(topic="../bad"))).code == 1
    assert set(await topics_of(asker, GetAllTopics())) == {"T1", "T2", "known"}
    for cluster in ("unknown", CLUSTER):
        header = DeleteTopicInNameServer(topic="known", cluster_name=cluster)
        assert (await asker.ask(header)).code == 0
    assert set(await topics_of(asker, GetAllTopics())) == {"T1", "T2"}


def test_a_topic_is_deleted_at_once_while_other_brokers_register():
    peers = Peers()
    for number, name in enumerate(("a", "b")):
        peers.ask(number, number, *registration(name, f"{name}0", f"{name}1", body_crc32=0))
        if name == "a":
            drain(peers.service.queue)
    assert len(peers.service.queue) == 1
    peers.ask(2, 9, DeleteTopicInNameServer(topic="a0"))
    assert [number for number, _ in peers.done] == [0, 2]
    assert len(peers.service.queue) == 1


def test_who_registers_a_topic_behind_its_deletion_waits_for_that():
    peers = Peers()
    peers.ask(0, 1, *registration("a", "t0", "t1"))
    peers.service.queue.step()
    while peers.service.tables.lookup("t0") is None:
        peers.service.queue.step()
    peers.ask(1, 9, DeleteTopicInNameServer(topic="t0"))
    peers.ask(2, 2, *registration("b", "t0", "t1"))
    assert peers.service.tables.group_of("b") is None
    drain(peers.service.queue)
    assert [number for number, _ in peers.done] == [0, 1, 2]
    assert peers.service.tables.broker_names_of("t0") == ["b"]
