"""The Java that Spark runs on: found where systems install it, or asked for in one sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from orbitmq.errors import ConfigError

JAVA_VERSION_MIN = 17
_INSTALL_DIRS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt")
_VERSION = re.compile(r'version "(\d+)')


def find_java_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return the home of a Java 17 or newer: JAVA_HOME's, the one on the PATH, or one where systems install it.

    Raises:
        ConfigError: there is none; says what to type.
    """
    environment = os.environ if environment is None else environment
    too_old: list[str] = []
    for home in _candidates(environment):
        version = java_version(home)
        if version is not None and version >= JAVA_VERSION_MIN:
            return home
        if version is not None:
            too_old.append(f"{home} is version {version}")
    found = "; ".join(too_old) or "none found"
    raise ConfigError("Java", found, f"version {JAVA_VERSION_MIN} or newer: {_advice()}, or set JAVA_HOME")


def java_version(home: Path) -> int | None:
    """Return the major version of the Java at `home`, None when there is none that runs."""
    java = home / "bin" / "java"
    if not java.is_file():
        return None
    try:
        told = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(told)
    return int(found.group(1)) if found else None


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    homes = [Path(environment["JAVA_HOME"])] if environment.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    for directory in _INSTALL_DIRS:
        homes += sorted(path.parent.parent for path in Path(directory).glob("*/bin/java"))
        homes += sorted(path.parent.parent for path in Path(directory).glob("*/Contents/Home/bin/java"))
    return homes


def _advice() -> str:
    for tool, command in (
        ("apt-get", "sudo apt-get install openjdk-17-jre-headless"),
        ("dnf", "sudo dnf install java-17-openjdk-headless"),
        ("brew", "brew install openjdk@17"),
    ):
        if shutil.which(tool):
            return f"type `{command}`"
    return "install a JDK of your system"
