"""Transactions in a running broker: a task that writes op messages, asks producers, and keeps how far it is."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from orbitmq.broker.groups.members import GroupMembers
from orbitmq.broker.monitoring.repeated_failure import RepeatedFailure
from orbitmq.broker.transactions.messages import group_of
from orbitmq.broker.transactions.transactions import Renewed, Transactions
from orbitmq.clock import Clock
from orbitmq.files import replace_file, write_aside
from orbitmq.model.message import Host, PropertyName
from orbitmq.model.topic import HALF_TOPIC
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.headers import CheckTransactionState
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import encode_record

log = logging.getLogger(__name__)

TRIES = 3
"""Producers of a group that are tried for one question (Java: GET_AVAILABLE_CHANNEL_RETRY_COUNT)."""


class TransactionChecks:
    """Asks one producer of the group, whichever is next: any of them may answer for all.

    Args:
        members: tells the producers' connections.
        host: this broker's address, as message ids carry it.
        broker_name: tells a producer where to send its answer.
    """

    def __init__(self, members: GroupMembers[Peer], *, host: Host, broker_name: str) -> None:
        self.sent_count = 0
        """Questions since the start."""
        self.unsent_count = 0
        """Those that found no producer of the group that would read them; they count as asked, as in Java."""
        self._members = members
        self._host = host
        self._broker_name = broker_name

    def ask(self, renewed: Renewed) -> None:
        """Ask a producer about a message."""
        group, body = group_of(renewed.half), _body(renewed)
        for _ in range(TRIES):
            peer = self._members.next_producer(group)
            if peer is None:
                break
            if peer.has_room(len(body)):
                peer.send_oneway(self._header(renewed), body)
                self.sent_count += 1
                return
        self.unsent_count += 1
        if is_worth_a_line(self.unsent_count):
            log.warning(
                "no producer of the group %s can be asked how its transaction has ended (%d such questions since the start)",
                group, self.unsent_count,
            )  # fmt: skip

    def _header(self, renewed: Renewed) -> CheckTransactionState:
        key = renewed.properties.get(PropertyName.UNIQ_KEY)
        return CheckTransactionState(
            topic=HALF_TOPIC,
            tran_state_table_offset=renewed.result.queue_offset,
            commit_log_offset=renewed.result.physical_offset,
            message_id=key,
            transaction_id=key,
            offset_message_id=offset_message_id(self._host, renewed.result.physical_offset),
            broker_name=self._broker_name,
        )


def _body(renewed: Renewed) -> bytes:
    """Return the message as its producer knows it, at the place of the renewed half."""
    place, result = renewed.place, renewed.result
    return encode_record(
        renewed.half._replace(
            topic=place.topic,
            queue_id=place.queue_id,
            properties=format_properties(renewed.properties),
            queue_offset=result.queue_offset,
            physical_offset=result.physical_offset,
            stored_at_ms=result.stored_at_ms,
            prepared_transaction_offset=0,
        )
    )


TICK_MS = 500
"""How often the task looks what is to be done, if no interval is shorter."""
SAVE_MS = 3_000
"""How often the counts are written when they changed (Java: transactionMetricFlushInterval)."""
_TICK_MS_MIN = 20


class TransactionService:
    """Runs what transactions need besides the requests.

    Args:
        path: the file of the counts, for metrics alone.
        check_interval_ms: between two rounds of checks (transactionCheckInterval).
        op_interval_ms: how long an op message may wait for more to say (transactionOpBatchInterval).
        clock: the wall clock: a half message says when it was born on its producer's.
        monotonic: the clock that intervals are counted on.
    """

    def __init__(
        self,
        transactions: Transactions,
        checks: TransactionChecks,
        path: Path,
        *,
        check_interval_ms: int,
        op_interval_ms: int,
        clock: Clock,
        monotonic: Clock,
    ) -> None:
        self._transactions = transactions
        self._checks = checks
        self._path = path
        self._check_interval_ms = check_interval_ms
        self._op_interval_ms = op_interval_ms
        self._tick_ms = max(_TICK_MS_MIN, min(TICK_MS, check_interval_ms // 2, op_interval_ms))
        self._clock = clock
        self._monotonic = monotonic
        self._checked_at_ms = self._ops_at_ms = self._saved_at_ms = monotonic()
        self._failure = RepeatedFailure(log, "transactions cannot go on, it is tried again")

    async def run(self) -> None:
        """Do what is due, tick by tick. Ends when it is cancelled."""
        while True:
            await asyncio.sleep(self._tick_ms / 1000)
            try:
                await self._do_due()
            except Exception as error:
                self._failure.note(error)
            else:
                self._failure.note(None)

    def stop(self) -> None:
        """Write what is still to be said, while the store takes it."""
        try:
            self._transactions.write_ops(self._clock())
        except Exception as error:  # the next start finds it in the log
            self._failure.note(error)

    def save(self) -> None:
        """Keep how far everything is; the store is closed, and all of it is on the disk."""
        self._transactions.note_done()
        self._transactions.keep_durable()
        content = self._transactions.counts.take_changed(self._clock())
        if content is not None:
            replace_file(self._path, content)

    async def _do_due(self) -> None:
        transactions, now = self._transactions, self._monotonic()
        if now - self._ops_at_ms >= self._op_interval_ms:
            self._ops_at_ms = now
            transactions.write_ops(self._clock())
        if now - self._checked_at_ms >= self._check_interval_ms:
            self._checked_at_ms = now
            transactions.begin_round()
            while transactions.check_some(self._clock(), self._checks.ask):
                await asyncio.sleep(0)
        transactions.note_done()
        transactions.keep_durable()
        if now - self._saved_at_ms >= SAVE_MS:
            self._saved_at_ms = now
            content = transactions.counts.take_changed(self._clock())
            if content is not None:
                await write_aside(replace_file, self._path, content)
