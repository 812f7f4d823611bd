import os

import pytest

from orbitmq.admin.backup.offset_map import OffsetMap, Run
from orbitmq.admin.backup.progress import (
    QueueProgress,
    RestoreProgress,
    encode_progress,
    forget_progress,
    load_progress,
    save_progress,
)
from orbitmq.errors import ConfigError, StoreError
from orbitmq.model.route import MessageQueue


def progress(*runs):
    return RestoreProgress("id", {"a": "b"}, {MessageQueue("orders", "b", 1): QueueProgress(True, OffsetMap(3, runs))})


def test_progress_is_loaded_as_it_was_saved(tmp_path):
    save_progress(tmp_path / "p", encode_progress(progress(Run(10, 3, 2), Run(15, 5, 1))))
    found = load_progress(tmp_path / "p", is_resumed=True)
    assert (found.backup, found.brokers) == ("id", {"a": "b"})
    ((queue, place),) = found.queues.items()
    assert (queue, place.was_empty, place.offsets.base) == (MessageQueue("orders", "b", 1), True, 3)
    assert place.offsets.runs == (Run(10, 3, 2), Run(15, 5, 1))


def test_an_interrupted_restore_is_resumed_only_when_that_is_said(tmp_path):
    assert load_progress(tmp_path / "p", is_resumed=False) is None
    with pytest.raises(ConfigError, match="leave --resume out"):
        load_progress(tmp_path / "p", is_resumed=True)
    save_progress(tmp_path / "p", encode_progress(progress()))
    with pytest.raises(ConfigError, match="Go on with --resume"):
        load_progress(tmp_path / "p", is_resumed=False)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "p").write_bytes(b"{}")
    with pytest.raises(StoreError, match="cannot be used"):
        load_progress(tmp_path / "p", is_resumed=True)


def test_a_link_or_a_pipe_in_its_place_is_refused_and_not_waited_for(tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(StoreError, match=f"{name} is not a file"):
            load_progress(tmp_path / name, is_resumed=True)


def test_runs_that_overlap_are_damage(tmp_path):
    content = encode_progress(progress(Run(10, 3, 2), Run(15, 5, 1))).replace(b"[15,5,1]", b"[11,5,1]")
    save_progress(tmp_path / "p", content)
    with pytest.raises(StoreError, match="cannot be used"):
        load_progress(tmp_path / "p", is_resumed=True)


def test_nothing_is_left_of_a_restore_that_is_done(tmp_path):
    for _ in range(2):
        save_progress(tmp_path / "p", encode_progress(progress()))
    forget_progress(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []
