"""The ground that every part of a broker is made from, and its ways to NameServers and other brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.groups.topic_routes import Found
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.registration.addresses import BrokerAddress
from orbitmq.broker.replication.metadata import AskMaster, ask_no_master
from orbitmq.broker.replication.role import ControlledRole
from orbitmq.broker.settings.changes import Use
from orbitmq.broker.topics.logical_queues import Ask, ask_no_broker
from orbitmq.broker.topics.registry import Announced
from orbitmq.clock import Clock
from orbitmq.ha.epochs import Epochs
from orbitmq.net.security.server_security import ServerSecurity
from orbitmq.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerContext:
    """What the parts are made from.

    Args:
        config: the settings at the start; what may change while the broker runs is in `BrokerService.config`.
        access: users and rules, and the guard at the port.
        security: what stands at the port.
        monotonic: the clock that deadlines are counted on: setting the wall clock moves none of them.
        role: what controllers have made of this broker; None: its settings say what it is.
        epochs: of its log, where it has a role.
    """

    config: BrokerConfig
    store: Store
    files: ConfigFiles
    address: BrokerAddress
    access: AccessControl
    security: ServerSecurity
    clock: Clock
    monotonic: Clock
    random: Random
    role: ControlledRole | None = None
    epochs: Epochs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLinks:
    """The ways out of a broker.

    Args:
        announce: tells every NameServer of a changed topic table, then calls back; see `registration`.
        find_queues: queries NameServers for the readable queues of a topic; see `assignments`.
        ask_broker: asks another broker about a static topic.
        ask_master: asks a slave's master for its tables.
        use_settings: lets settings that were changed count everywhere.
    """

    announce: Callable[[Announced | None], None]
    find_queues: Callable[[str], Awaitable[Found]]
    ask_broker: Ask = ask_no_broker
    ask_master: AskMaster = ask_no_master
    use_settings: Use = lambda _config, then: then()
