"""`orbitmq store salvage`: what it says, what it writes, and whom it leaves alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from orbitmq.store.inspection import salvage as repair
from orbitmq.store.local_disk import LocalDisk

from .conftest import Call, config_of

pytestmark = pytest.mark.real


@pytest.fixture
def cut(root: Path) -> Path:
    """A store whose sixth record is damaged; a start has set aside what lay behind it."""
    path = root / "commitlog" / f"{0:020}"
    content = bytearray(path.read_bytes())
    content[content.index(b"body 5")] ^= 1
    path.write_bytes(content)
    (root / "abort").write_text("1")
    for name in ("checkpoint", "ends"):
        (root / name).unlink()
    asyncio.run(_start_and_stop(root))
    return root


async def _start_and_stop(root: Path) -> None:
    from orbitmq.broker.app import Broker

    broker = Broker(config_of(root))
    await broker.start()
    await broker.stop()


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_messages_are_back_and_the_check_is_content(call: Call, cut: Path) -> None:
    checked = call("check", cut, "-o", "json")
    assert checked.code == 1
    assert "34 whole records" in checked.out
    result = call("salvage", cut, "-o", "json")
    assert result.code == 0
    assert sum(row["count"] for row in json.loads(result.out)) == 34
    assert {row["what"] for row in json.loads(result.out)} == {"brought back"}
    assert call("check", cut).code == 0
    assert len(call("dump", cut).rows) == 5 + 34


def test_a_dry_run_writes_nothing_and_may_run_while_the_broker_does(call: Call, cut: Path) -> None:
    before = snapshot(cut)
    lock = LocalDisk().lock(cut / "lock")
    result = call("salvage", cut, "--dry-run")
    lock.close()
    assert result.code == 0
    assert sum(int(row[2]) for row in result.rows) == 34
    assert snapshot(cut) == before


def test_messages_can_be_written_into_a_new_file_instead(call: Call, cut: Path) -> None:
    before, target = snapshot(cut), cut.parent / "messages.jsonl"
    assert call("salvage", cut, "--to", target).code == 0
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["body"] for line in lines] == [f"body {number}" for number in range(6, 40)]
    assert snapshot(cut) == before
    again = call("salvage", cut, "--to", target)
    assert (again.code, again.out) == (1, "")
    assert "File exists" in again.err


def test_a_topic_that_is_not_there_keeps_its_messages_aside(call: Call, cut: Path) -> None:
    path = cut / "config" / "topics.json"
    path.write_text(path.read_text().replace("bills", "other"))
    result = call("salvage", cut)
    assert result.code == 1
    assert "its file stays until the topic is made" in result.out


def test_a_running_broker_is_left_alone(call: Call, cut: Path) -> None:
    lock = LocalDisk().lock(cut / "lock")
    result = call("salvage", cut)
    lock.close()
    assert (result.code, result.out) == (1, "")
    assert "in use by another broker" in result.err


def test_ctrl_c_says_that_the_next_one_goes_on(call: Call, cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(repair, "salvage", interrupted)
        result = call("salvage", cut)
    assert result.code == 130
    assert "stores nothing twice" in result.err


def test_what_is_no_store_is_a_usage_error(call: Call, tmp_path: Path) -> None:
    assert call("salvage", tmp_path).code == 2
