"""The settings as administrators are shown them: every key that a Java broker shows, and which of them have no effect."""

from __future__ import annotations

from orbitmq.broker.config import IMPLIED_PATHS, BrokerConfig
from orbitmq.broker.settings.changes import CHANGEABLE
from orbitmq.broker.settings.java_keys import WITHOUT_EFFECT

MARK = "keysWithoutEffect"
"""Ours: the key that names the others that have no effect here."""
CHANGEABLE_MARK = "keysThatMayChange"
"""Ours: the key that names those that may be changed while the broker runs."""


def shown_settings(config: BrokerConfig) -> dict[str, str]:
    """Return all keys with their values, sorted.

    Those without an effect have Java's defaults: a tool that computes with one of them finds a number there.
    """
    root = config.store_path_root_dir
    ours = config.to_properties()
    implied = {"storePathCommitLog": str(root / IMPLIED_PATHS["storePathCommitLog"])}
    without_effect = {key: value for key, value in WITHOUT_EFFECT.items() if key not in ours}
    marks = {MARK: ",".join(sorted(without_effect)), CHANGEABLE_MARK: ",".join(sorted(CHANGEABLE))}
    return dict(sorted((without_effect | implied | ours | marks).items()))


def format_settings(config: BrokerConfig) -> bytes:
    """Return the settings as Java properties text."""
    lines = ["# keys that keysWithoutEffect names have no effect in this broker, and Java's defaults"]
    lines += [f"{key}={_escaped(value)}" for key, value in shown_settings(config).items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")  # nothing else has a meaning inside of a value
