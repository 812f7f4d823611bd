"""Java is found where it is, and asked for in one sentence where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import ConfigError
from orbitmq.spark.driver import java
from orbitmq.spark.driver.java import find_java_home, java_version

pytestmark = pytest.mark.real


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    monkeypatch.setattr(java, "_INSTALL_DIRS", ())


@pytest.mark.parametrize(("told", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_452", 1)])
def test_the_version_is_read(tmp_path, told, version):
    assert java_version(fake_java(tmp_path, told)) == version


def test_java_home_comes_before_the_path(tmp_path):
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "other", "21.0.1")

    assert find_java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == home
    assert find_java_home({"PATH": str(other / "bin")}) == other


def test_one_that_is_too_old_is_passed_over(tmp_path):
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "17.0.2")

    assert find_java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


@pytest.mark.parametrize("below", ["", "Contents/Home"])
def test_one_that_the_system_installed_is_found(tmp_path, monkeypatch, below):
    home = fake_java(tmp_path / "temurin-21.jdk" / below, "21.0.2")
    monkeypatch.setattr(java, "_INSTALL_DIRS", (str(tmp_path / "nowhere"), str(tmp_path)))

    assert find_java_home({"PATH": ""}) == home


@pytest.mark.parametrize(
    ("tool", "advice"),
    [
        ("apt-get", "type `sudo apt-get install openjdk-17-jre-headless`"),
        ("dnf", "type `sudo dnf install java-17-openjdk-headless`"),
        ("brew", "type `brew install openjdk@17`"),
        ("none", "install a JDK of your system"),
    ],
)
def test_the_error_says_what_to_type_on_this_system(monkeypatch, tool, advice):
    monkeypatch.setattr(java.shutil, "which", lambda name, path=None: name if name == tool else None)

    with pytest.raises(ConfigError, match=f"version 17 or newer: {advice}, or set JAVA_HOME"):
        find_java_home({"PATH": ""})


def test_without_java_the_error_says_what_to_do(tmp_path):
    old = fake_java(tmp_path / "old", "11.0.2")

    with pytest.raises(ConfigError, match=r"is version 11.*version 17 or newer: .*JAVA_HOME"):
        find_java_home({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(ConfigError, match="none found"):
        find_java_home({"PATH": ""})


def test_a_home_without_java_or_with_a_broken_one_has_no_version(tmp_path):
    assert java_version(tmp_path) is None
    broken = fake_java(tmp_path / "broken", "17")
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert java_version(broken) is None
