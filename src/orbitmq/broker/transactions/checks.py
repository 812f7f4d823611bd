"""Questions to producers: how has your transaction ended? They travel one way, the answer is an END_TRANSACTION.

Source: Java AbstractTransactionalMessageCheckListener.sendCheckMessage, ProducerManager.getAvailableChannel.
"""

from __future__ import annotations

import logging

from orbitmq.broker.groups.members import GroupMembers
from orbitmq.broker.transactions.messages import group_of
from orbitmq.broker.transactions.transactions import Renewed
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
