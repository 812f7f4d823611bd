from __future__ import annotations

import pytest

from orbitmq.errors import ConfigError, JobFailed
from orbitmq.job_directory import CONTENT_SIZE_MAX, check_claimable, claimed, held, lock_of, locked

SUBJECT = {"job": "archive", "topic": "t"}


def test_a_directory_is_made_and_may_be_used_again_for_the_same(tmp_path):
    for _ in range(2):
        with claimed(tmp_path / "new" / "one", SUBJECT):
            (tmp_path / "new" / "one" / "date=2026-11-23").mkdir(exist_ok=True)


def test_a_directory_for_something_else_is_refused(tmp_path):
    with claimed(tmp_path, SUBJECT):
        pass
    with pytest.raises(ConfigError, match="which is for"), claimed(tmp_path, SUBJECT | {"topic": "other"}):
        pass


def test_a_directory_with_files_of_others_is_refused_and_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="holds other files"), claimed(tmp_path, SUBJECT):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_what_a_directory_would_be_refused_for_is_known_before_and_nothing_is_made(tmp_path):
    check_claimable(tmp_path / "new" / "one", SUBJECT)
    assert list(tmp_path.iterdir()) == []
    with claimed(tmp_path / "one", SUBJECT), pytest.raises(JobFailed, match="another run is under way"):
        check_claimable(tmp_path / "one", SUBJECT)
    check_claimable(tmp_path / "one", SUBJECT)
    with pytest.raises(ConfigError, match="which is for"):
        check_claimable(tmp_path / "one", SUBJECT | {"topic": "other"})
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="which holds other files"):
        check_claimable(tmp_path, SUBJECT)
    for directory in (tmp_path / "letter.txt", tmp_path / "letter.txt" / "below"):
        with pytest.raises(ConfigError, match=r"letter\.txt is not a directory"):
            check_claimable(directory, SUBJECT)


def test_a_run_that_was_killed_while_it_claimed_the_directory_is_no_stranger(tmp_path):
    (tmp_path / "_lock").touch()
    (tmp_path / "_job.json.tmp").write_text('{"jo')
    with claimed(tmp_path, SUBJECT):
        pass
    assert "archive" in (tmp_path / "_job.json").read_text()


def test_a_directory_whose_note_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "_job.json").write_text("{")
    with pytest.raises(ConfigError, match=r"_job\.json can be read"), claimed(tmp_path, SUBJECT):
        pass


def test_a_note_of_any_size_is_read_in_part_and_shown_in_part(tmp_path):
    (tmp_path / "_job.json").write_text(f'["{"a" * CONTENT_SIZE_MAX}"]')
    with pytest.raises(ConfigError, match=r"_job\.json can be read"), claimed(tmp_path, SUBJECT):
        pass
    (tmp_path / "_job.json").write_text(f'["{"a" * (CONTENT_SIZE_MAX - 10)}"]')
    with pytest.raises(ConfigError, match="which is for") as raised, claimed(tmp_path, SUBJECT):
        pass
    assert len(str(raised.value)) < 1_000


def test_a_directory_itself_is_locked_and_stays_empty(tmp_path):
    with locked(tmp_path, "here"), pytest.raises(JobFailed, match="another run is under way in here"):
        with locked(tmp_path, "here"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_directory_elsewhere_has_a_lock_on_this_machine_that_readers_share(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    lock = lock_of("s3a://lake/orders")
    assert lock.parent == tmp_path / "orbitmq" / "locks"
    assert lock != lock_of("s3a://lake/returns")
    with locked(lock, "lake", is_shared=True), locked(lock, "lake", is_shared=True):
        with pytest.raises(JobFailed, match="another run is under way in lake"), locked(lock, "lake"):
            pass
    with locked(lock, "lake"), pytest.raises(JobFailed), locked(lock, "lake", is_shared=True):
        pass


def test_a_second_run_at_the_same_time_is_refused(tmp_path):
    with (
        claimed(tmp_path, SUBJECT),
        pytest.raises(JobFailed, match="another run is under way"),
        claimed(tmp_path, SUBJECT),
    ):
        pass
    with claimed(tmp_path, SUBJECT):
        pass


def test_a_directory_that_is_read_is_not_written_and_may_be_read_by_others(tmp_path):
    with held(tmp_path):  # no job's: nothing to keep
        pass
    with claimed(tmp_path, SUBJECT), pytest.raises(JobFailed, match="a run is under way"), held(tmp_path):
        pass
    with held(tmp_path), held(tmp_path), pytest.raises(JobFailed), claimed(tmp_path, SUBJECT):
        pass
