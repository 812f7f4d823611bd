"""Claims about the key-value file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.nameserver import kv_config
from orbitmq.nameserver.kv_config import KvConfig


def opened(path: Path) -> KvConfig:
    kv = KvConfig(path)
    kv.load()
    return kv


def test_values_are_put_read_listed_and_deleted(tmp_path: Path):
    kv = opened(tmp_path / "kv.json")
    assert (kv.get("n", "k"), kv.namespace("n")) == (None, None)
    kv.put("n", "k", "v")
    kv.put("n", "l", "w")
    assert (kv.get("n", "k"), kv.namespace("n")) == ("v", {"k": "v", "l": "w"})
    kv.delete("n", "k")
    kv.delete("n", "l")
    kv.delete("n", "never there")
    assert (kv.get("n", "k"), kv.namespace("n")) == (None, {})


def test_the_file_is_javas_and_survives_a_restart(tmp_path: Path):
    path = tmp_path / "deep" / "kv.json"
    opened(path).put("n", "k", "ü")
    assert json.loads(path.read_text(encoding="utf-8")) == {"configTable": {"n": {"k": "ü"}}}
    assert opened(path).get("n", "k") == "ü"


def test_the_previous_generation_is_kept_and_used_when_the_file_is_damaged(tmp_path: Path):
    path = tmp_path / "kv.json"
    kv = opened(path)
    kv.put("n", "k", "one")
    kv.put("n", "k", "two")
    assert json.loads((tmp_path / "kv.json.bak").read_text()) == {"configTable": {"n": {"k": "one"}}}
    for damage in (b'{"configTable":', b"[]", b'{"configTable":[]}'):
        path.write_bytes(damage)
        assert opened(path).get("n", "k") == "one"
    path.unlink()
    assert opened(path).get("n", "k") == "one"


def test_an_empty_file_is_an_empty_store(tmp_path: Path):
    (tmp_path / "kv.json").write_bytes(b"")
    assert opened(tmp_path / "kv.json").namespace("n") is None


def test_a_value_that_cannot_be_written_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kv = opened(tmp_path / "kv.json")
    kv.put("n", "k", "old")

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        kv.put("n", "k", "new")
    assert kv.get("n", "k") == "old"
    assert opened(tmp_path / "kv.json").get("n", "k") == "old"


def test_names_values_and_entries_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kv = opened(tmp_path / "kv.json")
    for namespace, key, value in (("n" * 1025, "k", "v"), ("n", "k" * 1025, "v"), ("n", "k", "v" * 65_537)):
        with pytest.raises(InvalidArgument):
            kv.put(namespace, key, value)
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 1)
    kv.put("n", "k", "v")
    kv.put("n", "k", "w")
    with pytest.raises(InvalidArgument, match="at most 1 entries"):
        kv.put("n", "l", "v")
