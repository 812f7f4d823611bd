"""What a NameServer answers, one module per family of requests."""

from __future__ import annotations

from orbitmq.nameserver.handlers import brokers, clusters, insight, kv, routes, settings, topics
from orbitmq.nameserver.registry import Registry
from orbitmq.net.handlers import Handlers

handlers: Handlers[Registry] = Handlers()
"""All of them."""

for family in (brokers, clusters, insight, kv, routes, settings, topics):
    handlers.include(family.handlers)
