"""Requests about logical queues: sends and pulls go to the queue behind it, offsets are asked for item by item.

Source: Java SendMessageProcessor, PullMessageProcessor (rewriteRequestForStaticTopic, rewriteResponseForStaticTopic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial, wraps
from typing import Any

from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics.logical_offsets import ItemRequest, LogicalQueue, Steps
from orbitmq.broker.topics.logical_pulls import logical_answer
from orbitmq.broker.topics.logical_queues import StaticTopics
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.static_topic import MappingItem, item_after, item_at
from orbitmq.net.dispatch.handlers import LATER, Call, Handler, Later, Reply
from orbitmq.wire.headers import ForwardedPullMessage, PullMessage, PullResponse, PullSysFlag, SendResponse

OffsetHandler = Handler[BrokerService, Any]

_of_own_queues: dict[type, OffsetHandler] = {}
"""The handlers of plain queues, by the header of a question about one."""


def on_logical_queues(
    question: type, make_steps: Callable[[LogicalQueue, Any], Steps]
) -> Callable[[OffsetHandler], OffsetHandler]:
    """Decorator: let a handler of plain queues answer for logical ones, too.

    Args:
        question: the header of the same request as it is sent on.
        make_steps: returns the questions that the answer is made of.
    """

    def decorate(handler: OffsetHandler) -> OffsetHandler:
        _of_own_queues[question] = handler

        @wraps(handler)
        def serve(broker: BrokerService, call: Call[Any]) -> Reply | Later:
            static = broker.tables.topics.static
            if not static.mappings or (queue := static.queue_of(call)) is None:
                return handler(broker, call)

            def local(header: Any) -> Reply:
                reply = _of_own_queues[type(header)](broker, Call(header, call.command, call.connection, call.now_ms))
                assert reply is not LATER, "an offset is known immediately"
                return reply

            return static.serve(call, make_steps(queue, call.header), local)

        return serve

    return decorate


def serve_send(static: StaticTopics, call: Call[Any], serve: Callable[[], Reply | Later]) -> Reply | Later:
    """Send to the leader of a logical queue; what is not a static topic is served as it came.

    Raises:
        Rejected: 501, another broker has the leader.
    """
    queue = static.queue_of(call, picks_one=True)
    if queue is None:
        return serve()
    call.header = replace(call.header, queue_id=queue.leader.queue_id)
    call.rewrite = partial(_sent, queue)
    reply = serve()
    return reply if reply is LATER else call.rewrite(reply)


def _sent(queue: LogicalQueue, reply: Reply) -> Reply:
    header = reply.header
    if not isinstance(header, SendResponse):
        return reply
    offset = queue.leader.logical_loosely(header.queue_offset)
    return reply._replace(header=replace(header, queue_id=queue.queue_id, queue_offset=offset))


def serve_pull(
    static: StaticTopics, call: Call[PullMessage], queue: LogicalQueue, serve: Callable[[], Reply | Later]
) -> Reply | Later:
    """Pull from the item of a logical queue that the offset lies in.

    Args:
        serve: pulls from a queue of this broker.

    Raises:
        Rejected: 1, none of its items has an offset yet; 2, too much is asked of other brokers.
    """
    header = call.header
    item = item_at(queue.items, header.queue_offset)
    if item is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"{queue.topic}-{queue.queue_id} has no offsets yet")
    own = _of_item(static, queue, item, header)
    answer = partial(logical_answer, queue.items, item, own.queue_offset)
    if item.broker_name != static.broker_name:
        return static.serve(call, _forwarded(item, own, answer), _no_pull)
    call.header = own
    call.rewrite = answer
    reply = serve()
    return reply if reply is LATER else answer(reply)


def _of_item(static: StaticTopics, queue: LogicalQueue, item: MappingItem, header: PullMessage) -> PullMessage:
    """Return the pull of an item's own queue. Only a reader at the end waits there."""
    count_max = header.count_max
    if item.has_end:
        count_max = min(item.end_offset - item.start_offset, count_max)
    sys_flag, commit_offset = header.sys_flag, header.commit_offset
    committed = item_at(queue.items, commit_offset)
    if item.broker_name != static.broker_name or item_after(queue.items, item) is not None:
        sys_flag &= ~int(PullSysFlag.SUSPEND)
    # What was consumed lies in another queue than what is read next: the reader tells of it by itself, too.
    if item.broker_name != static.broker_name or committed != item:
        sys_flag &= ~int(PullSysFlag.COMMIT_OFFSET)
    else:
        commit_offset = item.physical(commit_offset)
    return replace(
        header,
        queue_id=item.queue_id,
        queue_offset=item.physical(header.queue_offset),
        count_max=count_max,
        sys_flag=sys_flag,
        commit_offset=commit_offset,
        broker_name=item.broker_name,
    )


def _forwarded(item: MappingItem, own: PullMessage, answer: Callable[[Reply], Reply]) -> Steps:
    header = ForwardedPullMessage(**{field.name: getattr(own, field.name) for field in fields(PullMessage)})
    return answer((yield ItemRequest(item, RequestCode.PULL_MESSAGE, header, PullResponse)))


def _no_pull(header: object) -> Reply:
    raise AssertionError(f"a pull of this broker's own queue is not sent on: {header}")
