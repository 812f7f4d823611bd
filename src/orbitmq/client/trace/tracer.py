"""The Tracer: it notes what becomes of a client's messages, and sends it to a trace topic in the background.

No send and no handler waits for it, and none fails because of it: what cannot be told in time is dropped and counted.

Source: Java AsyncTraceDispatcher, SendMessageTraceHookImpl, ConsumeMessageTraceHookImpl, EndTransactionTraceHookImpl.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from random import Random

from orbitmq.client.send.encoder import MessageEncoder
from orbitmq.client.send.queue_selector import QueueSelector, Target
from orbitmq.client.send.request import EncodedMessage
from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.client.send.sender import Sender
from orbitmq.client.session.session import ClientSession
from orbitmq.client.trace.spool import PACK_COUNT_MAX, Pack, TraceSpool
from orbitmq.clock import now_ms
from orbitmq.errors import OrbitError
from orbitmq.model.message import Message, PropertyName, StoredMessage
from orbitmq.model.topic import DEFAULT_QUEUE_COUNT
from orbitmq.net.counters import is_worth_a_line
from orbitmq.wire.messages.properties import find_property, parse_properties
from orbitmq.wire.messages.traces import (
    ConsumeReturnType,
    ConsumptionBegun,
    ConsumptionEnded,
    MessageKind,
    Published,
    Recalled,
    Trace,
    TransactionEnded,
)

log = logging.getLogger(__name__)

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
CLOUD_TRACE_PREFIX = "rmq_sys_TRACE_DATA_"
"""Java's clients have a trace topic for each region in a cloud (TraceConstants.TRACE_TOPIC_PREFIX)."""
DEFAULT_REGION = "DefaultRegion"
FLUSH_MS = 1_000
"""A trace waits for others so long at most."""
SEND_TIMEOUT_MS = 5_000
CLOSE_MS = 3_000
"""How long closing waits for traces to be told."""
_GROUP_PREFIX = "_INNER_TRACE_PRODUCER"


class Tracer:
    """Tells the ways of one client's messages.

    Args:
        session: carries the trace messages, too.
        group: the client's.
        kind: PRODUCE or CONSUME, as Java names the group that trace messages are sent under.
        topic: where traces go.
    """

    def __init__(self, session: ClientSession, *, group: str, kind: str, topic: str) -> None:
        self._session = session
        self._group = group
        self._topic = topic
        self._spool = TraceSpool()
        selector = QueueSelector(session.routes, None, random=Random(), queue_count=DEFAULT_QUEUE_COUNT)
        self._sender = Sender(
            session,
            selector,
            group=f"{_GROUP_PREFIX}-{group}-{kind}-1",
            timeout_ms=SEND_TIMEOUT_MS,
            attempt_timeout_ms=None,
            retries=1,
        )
        self._encoder = MessageEncoder(session)
        self._lost_count = 0
        self._on_way_count = 0
        self._is_closing = False
        self._noted = asyncio.Event()
        self._is_over_budget = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def untold_count(self) -> int:
        """Traces that were dropped, or were in trace messages that no broker took."""
        return self._spool.dropped_count + self._lost_count

    def open(self) -> None:
        """Tell traces from now on; the session is open."""
        self._is_closing = False
        self._task = self._session.tasks.spawn(self._run(), "traces")

    async def close(self) -> None:
        """Tell what waits, within a time; the session is still open."""
        task, self._task = self._task, None
        if task is None:
            return
        self._is_closing = True
        self._noted.set()
        self._is_over_budget.set()
        # Not cancelled immediately: what is on its way has left the spool already.
        _, late = await asyncio.wait((task,), timeout=CLOSE_MS / 1000)
        if late:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._lost_count += self._on_way_count
            untold_count = self._on_way_count + len(self._spool)
            log.warning("traces of %s were not told before the end: %d", self._group, untold_count)

    def note(self, trace: Trace) -> None:
        """Let a trace be told later."""
        if not self._spool.put(trace):
            if is_worth_a_line(self._spool.dropped_count):
                log.warning("traces of %s that found no room: %d", self._group, self._spool.dropped_count)
            return
        self._noted.set()
        if len(self._spool) >= PACK_COUNT_MAX:
            self._is_over_budget.set()

    def sent(
        self,
        batch: Sequence[EncodedMessage],
        results: Sequence[SendResult],
        broker: str,
        answer: Mapping[str, str],
        cost_ms: int,
    ) -> None:
        """Note messages that a broker has answered, unless it asks for no traces.

        Args:
            broker: its address.
            answer: the extFields of its answer.
            cost_ms: how long that took.
        """
        if answer.get(PropertyName.TRACE_ON) == "false" or self._is_about_traces(batch[0].topic):
            return
        region = answer.get(PropertyName.MSG_REGION) or DEFAULT_REGION
        at_ms = now_ms() - cost_ms
        for message, result in zip(batch, results, strict=True):
            properties = parse_properties(message.properties)
            self.note(
                Published(
                    at_ms,
                    region,
                    self._group,
                    message.topic,
                    result.message_id,
                    properties.get(PropertyName.TAGS),
                    properties.get(PropertyName.KEYS),
                    broker,
                    len(message.body),
                    cost_ms,
                    _kind_of(message),
                    result.offset_message_id,
                    result.status is SendStatus.SEND_OK,
                )
            )

    def transaction_ended(
        self, message: Message | StoredMessage, message_id: str, broker: str, state: str, *, is_asked: bool
    ) -> None:
        """Note a decision that was told to a broker.

        Args:
            state: the decision's name, as Java's LocalTransactionState.
            is_asked: the broker had asked for it.
        """
        if self._is_about_traces(message.topic):
            return
        keys = " ".join(message.keys) or None
        region = message.properties.get(PropertyName.MSG_REGION) or DEFAULT_REGION
        self.note(
            TransactionEnded(
                now_ms(), region, self._group, message.topic, message_id, message.tag, keys, broker,
                MessageKind.COMMIT, message_id, state, is_asked,
            )
        )  # fmt: skip

    def recalled(self, topic: str, message_id: str, answer: Mapping[str, str], is_success: bool) -> None:
        """Note a message that was taken back, or not."""
        region = answer.get(PropertyName.MSG_REGION) or DEFAULT_REGION
        self.note(Recalled(now_ms(), region, self._group, topic, message_id, is_success))

    def begun(self, messages: Sequence[StoredMessage]) -> str | None:
        """Note messages that a consumer begins with; return the request id that they have in common, None without any."""
        traced = [message for message in messages if self.is_traced(message)]
        if not traced:
            return None
        at_ms = now_ms()
        request_id = self._encoder.ids.next(at_ms)
        for message in traced:
            region = message.properties.get(PropertyName.MSG_REGION) or DEFAULT_REGION
            keys = " ".join(message.keys) or None
            self.note(
                ConsumptionBegun(
                    at_ms, region, self._group, request_id, message.message_id, message.reconsume_times, keys
                )
            )
        return request_id

    def ended(
        self, messages: Sequence[StoredMessage], request_id: str, outcome: ConsumeReturnType, cost_ms: int
    ) -> None:
        """Note messages that a consumer is done with, which `begun` has noted."""
        at_ms = now_ms()
        for message in messages:
            if self.is_traced(message):
                keys = " ".join(message.keys) or None
                is_success = outcome is ConsumeReturnType.SUCCESS
                self.note(
                    ConsumptionEnded(
                        request_id, message.message_id, cost_ms, is_success, keys, outcome, at_ms, self._group
                    )
                )

    def is_traced(self, message: StoredMessage) -> bool:
        """Return True if a received message is to be traced: its producer and its broker may have said no."""
        return message.properties.get(PropertyName.TRACE_ON) != "false" and not self._is_about_traces(message.topic)

    def _is_about_traces(self, topic: str) -> bool:
        # Not, as Java does, every topic whose name begins like the trace topic's: a user may call both `orders...`.
        return topic in (self._topic, TRACE_TOPIC) or topic.startswith(CLOUD_TRACE_PREFIX)

    async def _run(self) -> None:
        while not self._is_closing:
            await self._noted.wait()
            try:
                async with asyncio.timeout(FLUSH_MS / 1000):
                    await self._is_over_budget.wait()
            except TimeoutError:
                pass
            self._noted.clear()
            self._is_over_budget.clear()
            await self._tell_all()
        await self._tell_all()

    async def _tell_all(self) -> None:
        for pack in self._spool.take():
            await self._tell(pack)

    async def _tell(self, pack: Pack) -> None:
        self._on_way_count = pack.body.count("\x02")
        try:
            message = Message(self._topic, pack.body.encode(), keys=pack.keys)
            await self._sender.send((self._encoder.encode(message),), Target(self._topic))
        except OrbitError as error:
            self._lost_count += self._on_way_count
            if is_worth_a_line(self._lost_count):
                log.warning("traces of %s that no broker took: %d; %s", self._group, self._lost_count, error)
        self._on_way_count = 0


def _kind_of(message: EncodedMessage) -> MessageKind:
    if find_property(message.properties, PropertyName.DELAY.encode()) is not None:
        return MessageKind.DELAYED
    is_half = find_property(message.properties, PropertyName.TRAN_MSG.encode()) is not None
    return MessageKind.HALF if is_half else MessageKind.NORMAL
