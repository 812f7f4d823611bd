"""Request modes: kept in their file, as Java's broker keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.broker.assignments import modes as module
from orbitmq.broker.assignments.modes import RequestModes
from orbitmq.errors import Rejected
from orbitmq.wire.pop.assignments import RequestMode


def modes(path: Path, default: str = "PULL") -> RequestModes:
    return RequestModes(path / "messageRequestMode.json", default=default, share_queue_count=3)


def test_groups_have_the_default_until_somebody_says_otherwise(tmp_path: Path):
    assert modes(tmp_path).find("t", "g") == RequestMode("t", "g", "PULL", 0)
    popping = modes(tmp_path, "POP")
    assert popping.find("t", "g") == RequestMode("t", "g", "POP", 3)
    assert popping.find("%RETRY%g", "g").mode == "PULL"


def test_what_is_set_outlasts_a_restart(tmp_path: Path):
    mode = RequestMode("t", "g", "POP", 1)
    modes(tmp_path).set(mode)
    again = modes(tmp_path)
    assert again.find("t", "g") == mode
    assert again.find("t", "h").mode == "PULL"


def test_what_the_disk_refuses_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "no space left")

    kept = modes(tmp_path)
    monkeypatch.setattr(module, "replace_file", refuse)
    with pytest.raises(Rejected, match="no space left"):
        kept.set(RequestMode("t", "g", "POP"))
    assert kept.find("t", "g").mode == "PULL"


def test_there_are_no_more_than_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "COUNT_MAX", 1)
    kept = modes(tmp_path)
    kept.set(RequestMode("t", "g", "POP"))
    kept.set(RequestMode("t", "g", "PULL"))
    with pytest.raises(Rejected, match="no more are kept"):
        kept.set(RequestMode("t", "h", "POP"))
