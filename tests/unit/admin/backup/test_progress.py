import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.admin.backup.plan import QueueProgress
from orbitmq.admin.backup.progress import (
    RestoreProgress,
    encode_progress,
    forget_progress,
    load_progress,
    save_progress,
)
from orbitmq.errors import ConfigError, StoreError
from orbitmq.model.route import MessageQueue


def progress(**fields):
    return RestoreProgress("id", {"a": "b"}, {MessageQueue("orders", "b", 1): QueueProgress(3, **fields)})


gaps = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=30)


@given(st.integers(0, 50), st.integers(0, 50), gaps, st.integers(0, 200))
def test_a_group_goes_on_at_the_first_message_that_it_had_not_read(begin, base, steps, committed):
    place, moved = QueueProgress(base, waiting=[committed]), {}
    old, new = begin, base
    for old_step, new_step in steps:
        place.add(old, new)
        moved[old] = new
        old, new = old + old_step, new + new_step
    unread = [new for old, new in moved.items() if old >= committed]
    assert place.find(committed) == (unread[0] if unread else max(moved.values(), default=base - 1) + 1)
    assert place.sent == len(moved)


def test_progress_is_loaded_as_it_was_saved(tmp_path):
    saved = progress(next_old=12, next_new=9, sent=5, moved={7: 3}, skipped={11: "too large"})
    save_progress(tmp_path / "p", encode_progress(saved))
    assert load_progress(tmp_path / "p", is_resumed=True) == saved


def test_an_interrupted_restore_is_resumed_only_when_that_is_said(tmp_path):
    assert load_progress(tmp_path / "p", is_resumed=False) is None
    with pytest.raises(ConfigError, match="leave --resume out"):
        load_progress(tmp_path / "p", is_resumed=True)
    save_progress(tmp_path / "p", encode_progress(progress()))
    with pytest.raises(ConfigError, match="Go on with --resume"):
        load_progress(tmp_path / "p", is_resumed=False)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"{", "not JSON"), (b'{"format": 2}', "queues"), (b'{"backup": "id"}', "another version")]
)
def test_a_damaged_file_and_one_of_an_older_version_are_named(tmp_path, content, reason):
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(StoreError, match=f"cannot be used: .*{reason}"):
        load_progress(tmp_path / "p", is_resumed=True)


def test_a_link_or_a_pipe_in_its_place_is_refused_and_not_waited_for(tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(StoreError, match=f"{name} is not a file"):
            load_progress(tmp_path / name, is_resumed=True)


def test_nothing_is_left_of_a_restore_that_is_done(tmp_path):
    for _ in range(2):
        save_progress(tmp_path / "p", encode_progress(progress()))
    forget_progress(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []
