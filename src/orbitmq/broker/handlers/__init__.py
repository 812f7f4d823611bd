"""The broker's handlers, one module per family of requests. HANDLERS holds them all, each with the tables that it uses."""

from orbitmq.broker.handlers import consumer_handlers, operator_handlers, producer_handlers
from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import Handlers

HANDLERS: Handlers[BrokerService] = Handlers()

for _registry in (producer_handlers, consumer_handlers, operator_handlers):
    HANDLERS.include(_registry.HANDLERS)
