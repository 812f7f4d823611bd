"""Administration: every administrative call, typed. Names are loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.admin.client import AdminClient
    from orbitmq.admin.groups import GroupStatus, QueueLag, QueueReset, ResetTo
    from orbitmq.admin.stats import Traffic
    from orbitmq.admin.topics import TopicChange

_MODULES = {
    "AdminClient": "client",
    "GroupStatus": "groups",
    "QueueLag": "groups",
    "QueueReset": "groups",
    "ResetTo": "groups",
    "TopicChange": "topics",
    "Traffic": "stats",
}

__all__ = ["AdminClient", "GroupStatus", "QueueLag", "QueueReset", "ResetTo", "TopicChange", "Traffic"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
