"""Handlers of everything that a NameServer is asked, one module per family of requests."""

from __future__ import annotations

from orbitmq.nameserver.handlers import administration, brokers, kv, topics
from orbitmq.nameserver.registration import pipeline
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import Handlers

BODY_SIZE_MAX = 4 * 1024
"""Bytes of a body where none is read, or a handler does not say otherwise."""

handlers: Handlers[NameServerService] = Handlers(body_size_max=BODY_SIZE_MAX)
"""All of them."""

for family in (brokers, administration, topics):
    handlers.include(family.handlers)
handlers.include(kv.handlers, lambda service: service.kv)
handlers.include(pipeline.handlers, lambda service: service.registrations)
