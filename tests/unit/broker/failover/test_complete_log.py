from __future__ import annotations

from pathlib import Path

from cases import each_case
from orbitmq.broker.failover.complete_log import CompleteLog, boot_id


def started(root: Path, boot: str, *, is_flushed: bool = False) -> CompleteLog:
    log = CompleteLog(root, is_flushed=is_flushed, boot=boot)
    log.start()
    return log


def test_a_process_that_ended_under_the_same_boot_has_lost_nothing(tmp_path: Path) -> None:
    assert started(tmp_path, "1").is_complete
    assert started(tmp_path, "1").is_complete


def test_another_boot_without_an_orderly_stop_may_have_cost_the_tail(tmp_path: Path) -> None:
    started(tmp_path, "1")
    assert not started(tmp_path, "2").is_complete


def test_an_orderly_stop_keeps_everything(tmp_path: Path) -> None:
    started(tmp_path, "1").stop()
    assert started(tmp_path, "2").is_complete


def test_an_incomplete_log_stays_so_until_it_is_noted_complete(tmp_path: Path) -> None:
    started(tmp_path, "1")
    started(tmp_path, "2").stop()
    log = started(tmp_path, "2")
    assert not log.is_complete
    log.note_complete()
    assert log.is_complete
    assert started(tmp_path, "2").is_complete
    assert not started(tmp_path, "3").is_complete


def test_what_sync_flush_acknowledged_is_on_the_disk(tmp_path: Path) -> None:
    started(tmp_path, "1", is_flushed=True)
    assert started(tmp_path, "2", is_flushed=True).is_complete
    assert started(tmp_path, "3").is_complete  # the setting has changed while it stood
    assert not started(tmp_path, "4", is_flushed=True).is_complete


def test_without_a_name_of_the_boot_only_an_orderly_stop_counts(tmp_path: Path) -> None:
    log = started(tmp_path, "")
    assert not started(tmp_path, "").is_complete
    log.stop()
    assert started(tmp_path, "").is_complete


@each_case(b"", b"nonsense\n", b"\xff")
def test_a_damaged_file_counts_as_incomplete(content: bytes, tmp_path: Path) -> None:
    started(tmp_path, "1").stop()
    (tmp_path / "completeLog").write_bytes(content)
    assert not started(tmp_path, "1").is_complete


def test_this_machine_names_its_boot() -> None:
    assert boot_id() == boot_id() != ""
