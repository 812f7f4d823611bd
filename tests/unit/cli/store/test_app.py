"""The commands of `orbitmq store`."""

from __future__ import annotations

from .conftest import Call


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
