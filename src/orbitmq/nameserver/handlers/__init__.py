"""What a NameServer answers, one module per family of requests."""

from __future__ import annotations

from orbitmq.nameserver.handlers import brokers, clusters, config, kv, monitoring, routes, topics
from orbitmq.nameserver.service import Registry
from orbitmq.net.dispatch.handlers import Handlers

handlers: Handlers[Registry] = Handlers()
"""All of them."""

for family in (brokers, clusters, monitoring, kv, routes, config, topics):
    handlers.include(family.handlers)
