"""Contexts: named clusters in a file, one of which commands ask when nothing else is said.

The file is `contexts.yaml` below `~/.config/orbitmq` (XDG_CONFIG_HOME): NameServers and the path of a security file by name. It holds no
secret itself. `-n`, NAMESRV_ADDR, `--security` and ORBITMQ_SECURITY win over it; ORBITMQ_CONTEXT chooses another one than `use` did.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from orbitmq.errors import ConfigError

VARIABLE = "ORBITMQ_CONTEXT"


class Context(NamedTuple):
    """A named cluster."""

    name_servers: str
    security: str | None = None


class Contexts(NamedTuple):
    """All of them, and the one in use."""

    current: str | None
    known: dict[str, Context]


def path() -> Path:
    """Return where the file is."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "orbitmq" / "contexts.yaml"


def load() -> Contexts:
    """Read the file; without one there are none.

    Raises:
        ConfigError: it cannot be read, or is not of its form.
    """
    try:
        text = path().read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts(None, {})
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("contexts", str(path()), f"a readable file ({error})") from None
    import yaml  # only those who have contexts pay for it

    try:
        document = yaml.safe_load(text) or {}
        known = {str(name): _parse(found) for name, found in (document.get("contexts") or {}).items()}
        current = document.get("current")
    except (yaml.YAMLError, AttributeError, TypeError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            "contexts", str(path()), f"`current`, and `contexts` with `nameServers` each ({reason})"
        ) from None
    return Contexts(None if current is None else str(current), known)


def _parse(found: dict[str, Any]) -> Context:
    security = found.get("security")
    return Context(str(found["nameServers"]), None if security is None else str(security))


def save(contexts: Contexts) -> None:
    """Write the file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    import yaml

    known = {
        name: {"nameServers": found.name_servers, **({"security": found.security} if found.security else {})}
        for name, found in sorted(contexts.known.items())
    }
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_suffix(".new")
    aside.write_text(yaml.safe_dump({"current": contexts.current, "contexts": known}), encoding="utf-8")
    aside.replace(target)


def current() -> Context | None:
    """Return the context in use; None: there is none.

    Raises:
        ConfigError: the one that is chosen does not exist.
    """
    chosen = os.environ.get(VARIABLE)
    if not chosen and not path().exists():
        return None
    contexts = load()
    name = chosen or contexts.current
    if name is None:
        return None
    if name not in contexts.known:
        source = VARIABLE if chosen else str(path())
        raise ConfigError(source, name, f"one of {', '.join(sorted(contexts.known)) or 'none: there is no context'}")
    return contexts.known[name]
