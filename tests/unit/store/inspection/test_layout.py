"""Which files belong to a store, and how large they should be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.store.inspection.layout import check_is_store, log_files, queue_directories, usual_size

NAME = f"{0:020}"


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
def test_what_is_no_store_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match=name):
        check_is_store(tmp_path / name)


@pytest.mark.parametrize("name", ["commitlog", "consumequeue", "checkpoint", "begin"])
def test_a_store_needs_no_more_than_a_broker_that_never_had_a_message_leaves(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    check_is_store(tmp_path)


@pytest.mark.parametrize(
    ("sizes", "usual"), [([], 9), ([0, 0], 9), ([5], 5), ([5, 7, 7], 7), ([0, 0, 0, 5], 5), ([5, 7], 7)]
)
def test_files_have_the_size_that_most_of_them_have(sizes: list[int], usual: int) -> None:
    assert usual_size(sizes, 9) == usual


def test_a_log_is_made_of_regular_files_whose_names_are_offsets(tmp_path: Path) -> None:
    (tmp_path / f"{20:020}").write_bytes(b"xy")
    (tmp_path / NAME).write_bytes(b"x")
    for name in ("1", "x" * 20, "٣" * 20, "9" * 21):
        (tmp_path / name).write_bytes(b"")
    os.mkfifo(tmp_path / f"{40:020}")
    (tmp_path / f"{60:020}").symlink_to("/dev/zero")
    (tmp_path / f"{80:020}").mkdir()
    assert [(file.base, file.size) for file in log_files(tmp_path)] == [(0, 1), (20, 2)]
    assert log_files(tmp_path / "missing") == []


def test_queues_are_directories_whose_names_are_numbers(tmp_path: Path) -> None:
    for name in ("orders/0", "orders/11", "orders/x", "orders/-1", "orders/²"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "orders/3").write_text("")
    (tmp_path / "file").write_text("")
    assert [key for key, _ in queue_directories(tmp_path)] == [("orders", 0), ("orders", 11)]
