from types import SimpleNamespace
from typing import Any

import pytest

from cases import each_case
from orbitmq import ConsumeFrom, MessageModel, PushConsumer
from orbitmq.client.consume.handler_pools import HandlerPool, MessagePool
from orbitmq.client.consume.send_backs import Drops, SendBacks
from orbitmq.client.group_member import GroupMember, _group_changed
from orbitmq.client.trace.settlers import TracedSettler
from orbitmq.model.group import ConsumerInfo
from orbitmq.wire.headers import NotifyConsumerIdsChanged


def member_of(**arguments):
    return GroupMember(PushConsumer("g", "127.0.0.1:1", **arguments)._settings)


@each_case(({}, type(None)), ({"handler": print}, HandlerPool), ({"message_handler": print}, MessagePool))
def test_the_handler_decides_what_calls_it(arguments, pool):
    assert type(member_of(**arguments).pool) is pool


async def test_a_member_of_a_divided_group_keeps_offsets_and_failed_messages_at_its_brokers():
    member = member_of()
    assert member.local_offsets is None
    assert type(member._send_backs) is SendBacks


async def test_a_broadcasting_member_keeps_offsets_in_a_file_under_its_own_name(tmp_path):
    member = member_of(message_model=MessageModel.BROADCASTING, offset_dir=tmp_path)
    assert member.local_offsets is not None
    assert type(member._send_backs) is Drops
    assert member.session.id.endswith("@DEFAULT")
    assert member_of(message_model=MessageModel.BROADCASTING, instance="me").session.id.endswith("@me")


async def test_a_subscription_is_watched_told_and_assigned_until_it_ends():
    member = member_of(consume_from=ConsumeFrom.FIRST)
    member.rebalance_requests.is_heartbeat_due = False
    member.subscribe("orders", "new")
    assert member.session.routes.is_watched("orders")
    assert member.rebalance_requests.is_heartbeat_due
    (told,) = member._describe("me").consumers
    assert told == ConsumerInfo(
        group="g", consume_from=ConsumeFrom.FIRST, subscriptions=(member.subscriptions["orders"],)
    )
    member.rebalance_requests.due.clear()
    member.unsubscribe("orders")
    assert not member.session.routes.is_watched("orders")
    assert member.rebalance_requests.due.is_set()
    assert member.subscriptions == {}


@pytest.mark.parametrize(("group", "is_due"), [("g", True), ("h", False)])
async def test_a_change_of_its_own_group_is_a_reason_to_rebalance(group, is_due):
    member = member_of()
    call: Any = SimpleNamespace(header=NotifyConsumerIdsChanged(consumer_group=group))
    _group_changed(member, call)
    assert member.rebalance_requests.due.is_set() is is_due


async def test_a_batch_settles_with_its_queue_or_with_the_trace_before_it():
    queue: Any = object()
    assert member_of()._settler_of(queue) is queue
    assert type(member_of(trace=True)._settler_of(queue)) is TracedSettler
