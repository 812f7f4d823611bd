"""The security file is found where it is: at its path, or among the files that Spark sent along."""

from __future__ import annotations

import pytest
from pyspark import SparkFiles

from orbitmq.errors import ConfigError
from orbitmq.net.security.client_security import UNSECURED
from orbitmq.spark.security import read_security
from orbitmq.wire.signature import Credentials


def write(path, key):
    path.touch(0o600)
    path.write_text(f"accessKey={key}\nsecretKey=hidden\n")


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """Return the directory of files that Spark sent along."""
    found = tmp_path / "sent"
    found.mkdir()
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(found))
    return found


def test_without_a_file_nothing_is_signed_or_encrypted():
    assert read_security(None) == UNSECURED


def test_a_file_is_found_by_its_path_and_in_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "mine.properties", "me")

    assert read_security(str(tmp_path / "mine.properties")).credentials == Credentials("me", "hidden")
    assert read_security("~/mine.properties").credentials == Credentials("me", "hidden")


def test_a_file_that_spark_sent_along_is_found_by_its_name(sent):
    write(sent / "mine.properties", "sent")

    assert read_security("mine.properties").credentials == Credentials("sent", "hidden")


def test_a_path_comes_before_a_file_that_was_sent(sent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mine.properties", "here")
    write(sent / "mine.properties", "sent")

    assert read_security("mine.properties").credentials == Credentials("here", "hidden")


def test_a_file_that_is_nowhere_is_named_as_it_was_given(sent):
    with pytest.raises(ConfigError, match=r"'mine\.properties'"):
        read_security("mine.properties")
