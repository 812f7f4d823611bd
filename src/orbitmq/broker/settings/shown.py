"""The settings as administrators are shown them: every key that a Java broker shows, and which of them have no effect."""

from __future__ import annotations

from orbitmq.broker.config import IMPLIED_PATHS
from orbitmq.broker.settings.changes import CHANGEABLE, RunTimeSettings
from orbitmq.broker.settings.java_keys import WITHOUT_EFFECT

MARK = "keysWithoutEffect"
"""Ours: the key that names the others that have no effect here."""
CHANGEABLE_MARK = "keysThatMayChange"
"""Ours: the key that names those that may be changed while the broker runs."""

NEXT_START_MARK = "keysOfTheNextStart"
"""Ours: the key that names those whose new values count from the next start on, with these values."""


def shown_settings(settings: RunTimeSettings) -> dict[str, str]:
    """Return all keys with their values, sorted.

    Those without an effect have what was set, or Java's defaults: a tool that computes with one of them finds a number there.
    """
    config = settings.current()
    root = config.store_path_root_dir
    ours = config.to_properties()
    implied = {"storePathCommitLog": str(root / IMPLIED_PATHS["storePathCommitLog"])}
    without_effect = {key: settings.idle.get(key, value) for key, value in WITHOUT_EFFECT.items() if key not in ours}
    marks = {
        MARK: ",".join(sorted(without_effect)),
        CHANGEABLE_MARK: ",".join(sorted(CHANGEABLE)),
        NEXT_START_MARK: ",".join(f"{key}:{value}" for key, value in sorted(settings.next_start.items())),
    }
    return dict(sorted((without_effect | implied | ours | marks).items()))


def format_settings(settings: RunTimeSettings) -> bytes:
    """Return the settings as Java properties text."""
    lines = ["# keys that keysWithoutEffect names have no effect in this broker"]
    lines += [f"{key}={_escaped(value)}" for key, value in shown_settings(settings).items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")  # nothing else has a meaning inside of a value
