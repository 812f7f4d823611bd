"""Claims about the key-value file."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import orjson
import pytest

from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.nameserver.persistence import kv_config
from orbitmq.nameserver.persistence.kv_config import KvConfig

from .saving import saved


def opened(path: Path) -> KvConfig:
    kv = KvConfig(path)
    kv.load()
    return kv


async def put(kv: KvConfig, namespace: str, key: str, value: str) -> None:
    await saved(kv.put, namespace, key, value)


async def test_values_are_put_read_listed_and_deleted(tmp_path: Path):
    kv = opened(tmp_path / "kv.json")
    assert (kv.get("n", "k"), kv.namespace("n")) == (None, None)
    await put(kv, "n", "k", "v")
    await put(kv, "n", "l", "w")
    assert (kv.get("n", "k"), kv.namespace("n")) == ("v", {"k": "v", "l": "w"})
    for key in ("k", "l", "never there"):
        await saved(kv.delete, "n", key)
    await saved(kv.delete, "nowhere", "k")
    assert (kv.get("n", "k"), kv.namespace("n"), kv.namespace("nowhere")) == (None, {}, None)


async def test_the_file_is_javas_and_survives_a_restart(tmp_path: Path):
    path = tmp_path / "deep" / "kv.json"
    await put(opened(path), "n", "k", "ü")
    assert json.loads(path.read_text(encoding="utf-8")) == {"configTable": {"n": {"k": "ü"}}}
    assert opened(path).get("n", "k") == "ü"


async def test_a_file_is_one_indented_document_though_it_is_encoded_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kv_config, "PIECE_SIZE", 2 * kv_config.CHANGE_SIZE)  # two entries
    path = tmp_path / "kv.json"
    kv = opened(path)
    for namespace, count in (("one", 1), ("two", 2), ("fi\nve", 5)):
        for number in range(count):
            await put(kv, namespace, f'"{number}"', "first\nsecond")
            expected = {
                "configTable": {name: kv.namespace(name) for name in ("one", "two", "fi\nve") if kv.namespace(name)}
            }
            assert path.read_bytes() == orjson.dumps(expected, option=orjson.OPT_INDENT_2)
    await saved(kv.delete, "one", '"0"')
    assert json.loads(path.read_text())["configTable"]["one"] == {}


async def test_the_previous_generation_is_kept_and_used_when_the_file_is_damaged(tmp_path: Path):
    path = tmp_path / "kv.json"
    kv = opened(path)
    await put(kv, "n", "k", "one")
    await put(kv, "n", "k", "two")
    assert json.loads((tmp_path / "kv.json.bak").read_text()) == {"configTable": {"n": {"k": "one"}}}
    for damage in (b'{"configTable":', b"[]", b'{"configTable":[]}'):
        path.write_bytes(damage)
        assert opened(path).get("n", "k") == "one"
    path.unlink()
    assert opened(path).get("n", "k") == "one"


def test_an_empty_file_is_an_empty_store(tmp_path: Path):
    (tmp_path / "kv.json").write_bytes(b"")
    assert opened(tmp_path / "kv.json").namespace("n") is None


class Disk:
    """Refuses to sync while `is_full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        if self.is_full:
            raise OSError(5, "Input/output error")
        self._fsync(descriptor)


async def test_a_value_that_cannot_be_written_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told: list[str] = []
    kv = KvConfig(tmp_path / "kv.json", on_change=lambda namespace, key: told.append(key))
    disk = Disk(monkeypatch)
    await put(kv, "n", "k", "old")
    disk.is_full = True
    with pytest.raises(Rejected, match="the key-value store cannot be saved: Input/output error"):
        await put(kv, "n", "k", "new")
    assert (kv.get("n", "k"), told) == ("old", ["k"])
    assert opened(tmp_path / "kv.json").get("n", "k") == "old"
    disk.is_full = False
    await put(kv, "n", "l", "next")
    assert (kv.namespace("n"), told) == ({"k": "old", "l": "next"}, ["k", "l"])


async def test_after_a_failed_write_the_file_is_written_even_when_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kv = opened(tmp_path / "kv.json")
    replace_file = kv_config.replace_file

    def written_but_unsure(path: Path, content: bytes) -> None:
        replace_file(path, content)
        raise OSError(5, "the directory cannot be synced")

    monkeypatch.setattr(kv_config, "replace_file", written_but_unsure)
    with pytest.raises(Rejected, match="synced"):
        await put(kv, "n", "k", "v")
    assert kv.get("n", "k") is None
    monkeypatch.setattr(kv_config, "replace_file", replace_file)
    await saved(kv.delete, "n", "k")
    assert opened(tmp_path / "kv.json").get("n", "k") is None


async def test_names_values_and_entries_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kv = opened(tmp_path / "kv.json")
    for namespace, key, value in (("n" * 1025, "k", "v"), ("n", "k" * 1025, "v"), ("n", "k", "v" * 65_537)):
        with pytest.raises(InvalidArgument):
            await put(kv, namespace, key, value)
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 2)
    await put(kv, "n", "k", "v")
    await put(kv, "n", "k", "w")
    await put(kv, "m", "k", "v")
    for namespace in ("n", "m", "o"):
        with pytest.raises(InvalidArgument, match="at most 2 entries"):
            await put(kv, namespace, "l", "v")
    await saved(kv.delete, "m", "k")
    with pytest.raises(InvalidArgument, match="at most 2 entries"):
        await put(kv, "o", "l", "v")
    await put(kv, "m", "l", "v")
    assert (kv.namespace("n"), kv.namespace("m"), kv.namespace("o")) == ({"k": "w"}, {"l": "v"}, None)


async def test_a_change_that_is_refused_for_room_refuses_no_other_of_the_same_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 1)
    kv = opened(tmp_path / "kv.json")
    outcomes = await asyncio.gather(
        put(kv, "n", "k", "v"), put(kv, "n", "l", "v"), put(kv, "n", "k", "w"), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), InvalidArgument, type(None)]
    assert kv.namespace("n") == {"k": "w"}


async def test_a_namespace_and_the_store_have_a_size_in_bytes_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`"n":{"k":"vvvvvvvvvv"}` counts 21: each text in its quotes, and a mark behind it."""
    kv = opened(tmp_path / "kv.json")
    monkeypatch.setattr(kv_config, "NAMESPACE_SIZE_MAX", 21)
    monkeypatch.setattr(kv_config, "STORE_SIZE_MAX", 40)
    for value in ("v" * 11, "\n" * 6, "\x00\x00"):
        with pytest.raises(InvalidArgument, match="namespace"):
            await put(kv, "n", "k", value)
    assert kv.namespace("n") is None
    await put(kv, "n", "k", "v" * 10)
    with pytest.raises(InvalidArgument, match="namespace"):
        await put(kv, "n", "l", "")
    with pytest.raises(InvalidArgument, match="namespace"):
        await put(kv, "m", "k", "v" * 9)
    await put(kv, "m", "k", "v" * 8)
    await saved(kv.delete, "n", "k")
    await put(kv, "n", "l", "w" * 10)
    assert (kv.namespace("n"), kv.namespace("m")) == ({"l": "w" * 10}, {"k": "v" * 8})


async def test_a_larger_store_from_elsewhere_is_read_and_may_shrink_but_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "kv.json"
    path.write_bytes(orjson.dumps({"configTable": {"n": {"k": "v" * 30, "l": "w"}}}))
    monkeypatch.setattr(kv_config, "NAMESPACE_SIZE_MAX", 20)
    kv = opened(path)
    with pytest.raises(InvalidArgument, match="namespace"):
        await put(kv, "n", "k", "v" * 31)
    await put(kv, "n", "k", "v" * 29)
    await saved(kv.delete, "n", "k")
    await put(kv, "n", "l", "")
    await put(kv, "n", "l", "w")
    assert kv.namespace("n") == {"l": "w"}
