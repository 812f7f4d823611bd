"""Properties files in Java's format, which every server reads its settings from."""

from __future__ import annotations

from pathlib import Path

from orbitmq.errors import ConfigError


def read_properties(path: Path | str) -> dict[str, str]:
    """Return the keys and values of a settings file.

    Raises:
        ConfigError: the file cannot be read, or is in another format.
    """
    import javaproperties  # it loads an XML parser: only who has a file pays

    try:
        return dict(javaproperties.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError("configFile", str(path), f"a readable Java properties file ({error})") from None
