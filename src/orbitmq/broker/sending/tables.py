"""The tables that sends work on, on the slow path and on the fast path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from orbitmq.address import parse_address
from orbitmq.broker.delivery.delay_service import DelayService
from orbitmq.broker.groups.auto_creation import AutoCreation
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.sending.answers import SendAnswers
from orbitmq.broker.sending.large_batches import LargeBatches
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.broker.sending.queue_resolver import QueueResolver
from orbitmq.broker.timers.service import TimerService
from orbitmq.broker.topics.logical_queues import StaticTopics
from orbitmq.broker.transactions.transactions import Transactions
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.message import PROPERTIES_SIZE_MAX, Host
from orbitmq.store import Store

_ILLEGAL_REMARK = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit {body} bytes, msg properties length limit {properties} bytes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTables:
    """What sends need.

    Args:
        body_size_max: bytes of a message's body.
        is_sync: answers wait, for the disk (SYNC_FLUSH) or for slaves (SYNC_MASTER).
        wait_ms_max: a send that has waited longer here for its turn is refused; None: none is.
        transactions: take half messages; None: none are taken.
    """

    store: Store
    queue_resolver: QueueResolver
    properties: StoredProperties
    answers: SendAnswers
    delays: DelayService
    timers: TimerService
    stats: BrokerStats
    body_size_max: int
    is_sync: bool
    wait_ms_max: int | None
    large_batches: LargeBatches
    auto_creation: AutoCreation
    transactions: Transactions | None = None

    @property
    def static(self) -> StaticTopics:
        """The static topics of this broker."""
        return self.queue_resolver.topics.static


@lru_cache(maxsize=65_536)
def host_of(remote: str) -> Host:
    """Return a connection's peer as messages carry it."""
    return Host(*parse_address(remote))


def check_sizes(tables: SendTables, body_size: int, properties_size: int) -> None:
    """Raise Rejected 13 when body or properties are longer than allowed."""
    if body_size > tables.body_size_max or properties_size > PROPERTIES_SIZE_MAX:
        limits = {"body": tables.body_size_max, "properties": PROPERTIES_SIZE_MAX}
        raise Rejected(ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL_REMARK.format(**limits))
