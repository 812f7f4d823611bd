"""The broker's handlers, one module per family of requests; HANDLERS holds them all."""

from orbitmq.broker.handlers import admin, clients, groups, locks, offsets, pull, retry, send, topics
from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import Handlers

HANDLERS: Handlers[BrokerService] = Handlers()
for _family in (send, retry, pull, offsets, clients, groups, locks, topics, admin):
    HANDLERS.include(_family.handlers)
