"""The file that keeps settings which were changed while the broker ran.

A broker that was given a settings file (`-c`) has them there, as in Java: the lines of the changed keys are replaced,
all others stay, comments too (Java writes every key, and no comment). Without one they are in `config/broker.properties`
below the store, which the next start reads.
"""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orbitmq.broker.config import IMPLIED_PATHS, BrokerConfig
from orbitmq.files import replace_file
from orbitmq.settings import fields_by_key, note_unknown_keys, read_properties

log = logging.getLogger(__name__)

WITHOUT_EFFECT: dict[str, str] = dict(
    line.split("=", 1)
    for line in Path(__file__).with_name("java_keys.properties").read_text("ascii").splitlines()
    if not line.startswith("#")
)
"""Keys of a Java broker that have no effect here, with Java's defaults."""
_KEY = re.compile(r"\s*([A-Za-z0-9]+)\s*[=:]")


def check_keys(path: Path, *, strict: bool) -> None:
    """Tell of the keys of a settings file that have no effect: those of Java's broker, and unknown ones.

    Raises:
        ConfigError: the file cannot be read; or, with `strict`, a key is unknown.
    """
    keys, ours = sorted(read_properties(path)), fields_by_key(BrokerConfig)
    known = ours.keys() | WITHOUT_EFFECT.keys() | IMPLIED_PATHS.keys()
    note_unknown_keys((key for key in keys if key not in known), known, strict=strict)
    for key in keys:
        if key in WITHOUT_EFFECT and key not in ours:
            log.warning("the setting %s has no effect in this broker", key)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file.

    Args:
        holds_changes_alone: it is not the one that the broker was given.
    """

    path: Path
    holds_changes_alone: bool

    @classmethod
    def of(cls, config: BrokerConfig) -> SettingsFile:
        """Return the file of a broker with these settings."""
        if config.broker_config_path:
            return cls(Path(config.broker_config_path), holds_changes_alone=False)
        return cls(config.store_path_root_dir / "config" / "broker.properties", holds_changes_alone=True)

    def read(self) -> dict[str, str]:
        """Return its keys and values, none when it is not there.

        Raises:
            ConfigError: it cannot be read.
        """
        return read_properties(self.path) if self.path.exists() else {}

    def keep(self, changes: Mapping[str, str]) -> None:
        """Put the changes into the file; what was there becomes its `.bak`. Its permissions stay as narrow as before.

        Raises:
            OSError: the disk refuses, or it holds something that is not a settings file any more.
        """
        path = self.path.resolve()  # a link stays one: the file that it leads to is changed
        if not path.exists():
            replace_file(path, changed_text("", changes).encode())
            return
        try:
            old = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise OSError(0, f"it is not UTF-8 ({error})") from None
        # It may hold passwords (initAuthenticationUser).
        replace_file(path, changed_text(old, changes).encode(), mode=stat.S_IMODE(path.stat().st_mode))


def changed_text(text: str, changes: Mapping[str, str]) -> str:
    """Return the text of a settings file with changes in it: each in the line of its key, new ones at the end.

    Raises:
        OSError: the text is none.
    """
    import javaproperties  # it loads an XML parser: only changes of settings pay

    try:
        wanted = {**javaproperties.loads(text), **changes}
    except ValueError as error:
        raise OSError(0, f"it is not a properties file ({error})") from None
    lines = text.splitlines()
    left = dict(changes)
    for place, line in enumerate(lines):
        found = _KEY.match(line)
        if found is not None and found[1] in changes:
            lines[place] = f"{found[1]}={changes[found[1]]}"
            left.pop(found[1], None)
    new = _joined([*lines, *(f"{key}={value}" for key, value in left.items())])
    # A line may be the rest of the one before it. Where that made something else of it: the last line of a key counts.
    if javaproperties.loads(new) == wanted:
        return new
    # An empty line ends whatever the last one is, a backslash at the very end of the file included.
    return _joined(
        [text, *([] if text.endswith("\n") else [""]), *(f"{key}={value}" for key, value in changes.items())]
    )


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
