"""The commands of `orbitmq store`, and the settings of the broker whose store they look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.cli.store.options import read_config
from orbitmq.errors import ConfigError

from .conftest import Call


def test_settings_are_the_brokers_own(tmp_path: Path) -> None:
    assert read_config(None) is None
    path = tmp_path / "broker.conf"
    path.write_text("mappedFileSizeCommitLog=65536\n")
    found = read_config(path)
    assert found is not None
    assert found.mapped_file_size_commit_log == 65536
    path.write_text("mappedFileSizeCommitLog=x\n")
    with pytest.raises(ConfigError, match="mappedFileSizeCommitLog"):
        read_config(path)


def test_each_command_explains_itself(call: Call) -> None:
    listed = call("--help")
    assert listed.code == 0
    for command in ("check", "dump", "rebuild", "salvage"):
        assert command in listed.out
        assert "DIR" in call(command, "--help").out


def test_a_command_without_a_directory_is_a_usage_error(call: Call) -> None:
    result = call("check")
    assert (result.code, result.out) == (2, "")
    assert "DIR" in result.err
