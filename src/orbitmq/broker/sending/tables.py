"""The tables that sends work on, on the long way and on the fast path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from orbitmq.address import parse_address
from orbitmq.broker.delivery.delay_service import DelayService
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.broker.sending.answers import SendAnswers
from orbitmq.broker.sending.destinations import Destinations
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.model.message import Host
from orbitmq.store import Store


@dataclass(frozen=True, slots=True)
class SendTables:
    """What sends need.

    Args:
        body_size_max: bytes of a message's body.
        is_sync: SYNC_FLUSH: answers wait for the disk.
        wait_ms_max: a send that has waited longer here for its turn is refused; None: none is.
    """

    store: Store
    destinations: Destinations
    properties: StoredProperties
    answers: SendAnswers
    delays: DelayService
    stats: BrokerStats
    body_size_max: int
    is_sync: bool
    wait_ms_max: int | None


@lru_cache(maxsize=65_536)
def host_of(remote: str) -> Host:
    """Return a connection's peer as messages carry it."""
    return Host(*parse_address(remote))
