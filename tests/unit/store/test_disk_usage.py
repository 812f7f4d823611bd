"""Claims about how full a disk is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from orbitmq.store.disk_usage import DiskUsage, disk_usage


def test_what_only_the_superuser_may_use_counts_on_neither_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = SimpleNamespace(f_blocks=100, f_bfree=40, f_bavail=20, f_frsize=4096)
    monkeypatch.setattr("os.statvfs", lambda path: found if path == tmp_path else None)
    usage = disk_usage(tmp_path)
    assert usage == DiskUsage(total=409_600, used=245_760, free=81_920)
    assert usage.used_ratio == 0.75


def test_a_file_system_without_blocks_is_empty() -> None:
    assert DiskUsage(0, 0, 0).used_ratio == 0


def test_a_directory_that_is_not_there_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk_usage(tmp_path / "none")
