"""`orbitmq store rebuild`: what it says, and whom it leaves alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.queues.rebuild import Rebuild

from .conftest import Call

pytestmark = pytest.mark.real


def test_lost_queues_are_back(call: Call, root: Path) -> None:
    shutil.rmtree(root / "consumequeue")
    settings = root.parent / "broker.conf"
    settings.write_text("mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=320\n")
    assert call("check", root).code == 1
    result = call("rebuild", root, "-c", settings)
    assert (result.code, result.out) == (0, "")
    assert result.err == "rebuilt 4 queues from 40 records\n"
    assert call("check", root).code == 0


def test_only_named_topics_are_rebuilt(call: Call, root: Path) -> None:
    done = json.loads(call("rebuild", root, "--topic", "orders", "-o", "json").out)
    assert (done["queue_count"], done["has_checkpoint"]) == (2, False)


def test_a_running_broker_is_left_alone(call: Call, root: Path) -> None:
    lock = LocalDisk().lock(root / "lock")
    result = call("rebuild", root)
    assert (result.code, result.out) == (1, "")
    assert "in use by another broker" in result.err
    lock.close()


def test_ctrl_c_leaves_the_mark_and_says_so(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Rebuild, "take", interrupted)
        result = call("rebuild", root)
    assert result.code == 130
    assert "begins again" in result.err
    assert "rebuild" in call("check", root, "-o", "json").named
    assert call("rebuild", root).code == 0
    assert call("check", root).code == 0
