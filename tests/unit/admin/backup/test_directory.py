import errno
import os
import stat
from pathlib import Path

import pytest

from orbitmq.admin.backup.directory import (
    RecordsWriter,
    check_file,
    check_new,
    named,
    read_manifest,
    read_records,
    write_file,
    write_manifest,
)
from orbitmq.admin.backup.sending import save_progress
from orbitmq.errors import ConfigError, StoreError
from orbitmq.model.message import SysFlag
from unit.admin.backup.support import encoded, manifest, queue_file, table_file


def damage(directory, entry):
    """What is wrong with a file."""
    with pytest.raises(StoreError) as caught:
        check_file(directory, entry)
    return str(caught.value)


def written(directory, *records, **fields):
    """A file with these records, and its entry."""
    writer = RecordsWriter(directory / "messages-1.gz")
    for one in records:
        writer.write(one)
    known = {"count": len(records), "records_size": sum(map(len, records))} | writer.close()._asdict() | fields
    return queue_file(**known)


def test_records_come_back_in_their_order(tmp_path):
    entry = written(tmp_path, encoded(0, b"a"), encoded(4, b"b"))
    assert [(one.queue_offset, one.body) for one in read_records(tmp_path, entry)] == [(0, b"a"), (4, b"b")]
    check_file(tmp_path, entry)
    assert stat.S_IMODE((tmp_path / entry.name).stat().st_mode) == 0o600


def test_batches_cannot_be_restored(tmp_path):
    assert "type BatchCQ" in damage(tmp_path, written(tmp_path, encoded(0, sys_flag=SysFlag.INNER_BATCH)))


@pytest.mark.parametrize("at", [0, 12, -1])
def test_a_flipped_byte_is_named(tmp_path, at):
    entry = written(tmp_path, encoded(0))
    path = tmp_path / entry.name
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert damage(tmp_path, entry) == "messages-1.gz is damaged: its checksum does not match"


@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content + b"x", lambda _: b""])
def test_another_size_is_named(tmp_path, change):
    entry = written(tmp_path, encoded(0))
    path = tmp_path / entry.name
    path.write_bytes(change(path.read_bytes()))
    assert f"expected {entry.size}" in damage(tmp_path, entry)


def test_a_missing_file_is_named(tmp_path):
    assert damage(tmp_path, table_file()) == "tables-1.json is missing"


@pytest.mark.parametrize(
    "fields", [{"count": 2}, {"count": 0}, {"records_size": 5}, {"records_size": 9_999}, {"topic": "x"}]
)
def test_records_that_the_manifest_does_not_say_are_named(tmp_path, fields):
    assert "messages-1.gz is damaged" in damage(tmp_path, written(tmp_path, encoded(0), **fields))


def test_no_more_is_unpacked_than_the_manifest_says(tmp_path):
    huge = written(tmp_path, (50_000_000).to_bytes(4, "big") + bytes(50_000_000), count=1, records_size=100)
    assert "a record of 50000000 bytes behind 0 others" in damage(tmp_path, huge)


def test_a_link_and_a_pipe_are_no_files(tmp_path):
    write_file(tmp_path / "secret", b"0123456789")
    (tmp_path / "tables-1.json").symlink_to(tmp_path / "secret")
    assert damage(tmp_path, table_file()).endswith("is not a file")
    os.mkfifo(tmp_path / "tables-2.json")
    assert damage(tmp_path, table_file("tables-2.json")) == f"{tmp_path}/tables-2.json is not a file"


def test_a_manifest_is_read_again(tmp_path):
    whole = manifest(table_file(), queue_file())
    write_manifest(tmp_path, whole)
    assert read_manifest(tmp_path) == whole


def test_no_manifest_is_an_interrupted_backup_and_no_directory_is_none(tmp_path):
    with pytest.raises(StoreError, match="an interrupted backup"):
        read_manifest(tmp_path)
    with pytest.raises(StoreError, match="there is no such directory"):
        read_manifest(tmp_path / "none")


def test_a_damaged_manifest_is_named(tmp_path):
    (tmp_path / "manifest.json").write_bytes(b"{")
    with pytest.raises(StoreError, match=r"manifest\.json: manifest: not JSON"):
        read_manifest(tmp_path)


def test_a_directory_that_holds_something_and_a_file_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(ConfigError, match="a new or an empty directory"):
        check_new(tmp_path)
    with pytest.raises(ConfigError, match="not a file"):
        check_new(tmp_path / "file")


def test_a_full_disk_names_the_file():
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'") as caught, named(Path("/dev/full")):
        Path("/dev/full").write_bytes(b"x")
    assert caught.value.errno == errno.ENOSPC


def test_a_full_disk_names_the_manifest_and_the_progress(tmp_path, monkeypatch):
    def refuse(*args, **fields):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("orbitmq.admin.backup.directory.replace_file", refuse)
    monkeypatch.setattr("orbitmq.admin.backup.sending.replace_file", refuse)
    with pytest.raises(OSError, match=r"No space left on device: .*manifest\.json"):
        write_manifest(tmp_path, manifest(table_file()))
    with pytest.raises(OSError, match=r"No space left on device: .*/p'"):
        save_progress(tmp_path / "p", b"{}")
