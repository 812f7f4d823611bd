"""Typed headers of every request code orbitmq speaks, one module per family.

A name is looked for family by family when it is first used: making eighty dataclasses takes 40 ms, and a NameServer
needs a third of them. `load_all` binds every code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.wire.headers.access import *  # noqa: F403
    from orbitmq.wire.headers.admin import *  # noqa: F403
    from orbitmq.wire.headers.controller import *  # noqa: F403
    from orbitmq.wire.headers.groups import *  # noqa: F403
    from orbitmq.wire.headers.nameserver import *  # noqa: F403
    from orbitmq.wire.headers.offsets import *  # noqa: F403
    from orbitmq.wire.headers.pop import *  # noqa: F403
    from orbitmq.wire.headers.pull import *  # noqa: F403
    from orbitmq.wire.headers.send import *  # noqa: F403
    from orbitmq.wire.headers.topics import *  # noqa: F403

_FAMILIES = ("nameserver", "topics", "send", "pull", "pop", "offsets", "groups", "admin", "controller", "access")


def load_all() -> None:
    """Import every family, which binds all request codes."""
    for family in _FAMILIES:
        import_module(f"{__name__}.{family}")


def __getattr__(name: str) -> Any:
    for family in _FAMILIES if name[:1].isupper() else ():
        module = import_module(f"{__name__}.{family}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
