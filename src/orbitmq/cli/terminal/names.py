"""Names of topics and groups: those that a shell completes, and the one that was meant where a name is not known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient

Kind = Literal["topic", "group"]
COMPLETION_S = 0.3
"""A shell that completes a word waits so long."""
SUGGESTION_S = 1.0
_SIMILARITY_MIN = 0.75


async def names(make_admin: Callable[[], AdminClient], kind: Kind, timeout_s: float) -> list[str]:
    """Return the names of users' topics or groups; nothing where servers do not tell in time."""
    from orbitmq.errors import OrbitError
    from orbitmq.model.topic import kind_of

    try:
        async with asyncio.timeout(timeout_s), make_admin() as admin:
            if kind == "group":
                return await admin.group_names()
            own = await admin.own_topics()
            return [name for name in await admin.topic_list() if kind_of(name, own) == "user"]
    except (OrbitError, OSError, TimeoutError):
        return []


async def similar(make_admin: Callable[[], AdminClient], kind: Kind, name: str) -> str | None:
    """Return the topic or group that was meant, perhaps, where there is none of this name."""
    known = await names(make_admin, kind, SUGGESTION_S)
    found = [] if name in known else get_close_matches(name, known, 1, _SIMILARITY_MIN)
    return found[0] if found else None


def complete(kind: Kind, name_servers: str, security: Path | None, begin: str) -> list[str]:
    """Return the names that begin so; of NameServers that are silent or refuse, none."""
    from orbitmq.admin import AdminClient
    from orbitmq.net.loop import run
    from orbitmq.net.security.client_security import load_security

    def make_admin() -> AdminClient:
        return AdminClient(name_servers, timeout_ms=round(COMPLETION_S * 1000), **load_security(security)._asdict())

    return [name for name in run(names(make_admin, kind, COMPLETION_S)) if name.startswith(begin)]
