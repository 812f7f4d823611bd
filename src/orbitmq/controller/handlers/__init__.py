"""The requests that a controller answers."""

from orbitmq.controller.handlers import administration, brokers, config
from orbitmq.controller.service import ControllerService
from orbitmq.net.dispatch.handlers import Handlers

handlers: Handlers[ControllerService] = Handlers(body_size_max=64 * 1024)
for _family in (brokers, administration, config):
    handlers.include(_family.handlers)
