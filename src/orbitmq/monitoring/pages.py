"""The pages of a server's HTTP port that supervisors ask for: metrics, health, readiness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from orbitmq.monitoring.metrics_page import Source, metrics_page
from orbitmq.net.http.page import JSON, Answer, Page


def server_pages(metrics: Source, health: Callable[[], Mapping[str, Any]], unready: str) -> dict[str, Page]:
    """Return the pages by path.

    Args:
        health: the health document; its field `ready` decides about readiness.
        unready: says why a server is not ready, where the document has no `notReady`.
    """

    def show_health(_query: Mapping[str, str]) -> Answer:
        # Alive and answering: alerts are for people to look at, not for a supervisor to restart.
        return Answer(orjson.dumps(health()), content_type=JSON)

    def show_readiness(_query: Mapping[str, str]) -> Answer:
        document = health()
        if document["ready"]:
            return Answer(b"ready\n")
        reasons = document.get("notReady") or [unready]
        return Answer("".join(f"{reason}\n" for reason in reasons).encode(), 503)

    return {
        "/metrics": Page(lambda _query: metrics_page(metrics)),
        "/healthz": Page(show_health),
        "/readyz": Page(show_readiness),
    }
