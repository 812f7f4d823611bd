"""`orbitmq backup DIR`."""

import os
import signal

import pytest

from orbitmq.admin.backup import saving
from orbitmq.admin.backup.directory import read_manifest
from orbitmq.client.queue_reader import QueueReader
from orbitmq.errors import ConnectionFailed, RequestTimeout


@pytest.fixture
def sent(orbitmq, topic):
    """A topic of this test's own with three messages."""
    for number in range(3):
        assert orbitmq("send", topic, f"body {number}").code == 0
    return topic


def test_a_backup_tells_what_each_broker_gave(orbitmq, sent, tmp_path):
    done = orbitmq("backup", tmp_path / "b", "--topic", sent)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].split() == ["BROKER", "TOPICS", "GROUPS", "QUEUES", "MESSAGES", "BYTES"]
    assert sum(int(row[4]) for row in done.rows) == 3


def test_a_document_tells_the_same(orbitmq, sent, tmp_path):
    done = orbitmq("backup", tmp_path / "b", "--topic", sent, "-o", "json")
    assert (done.json["message_count"], done.json["problems"]) == (3, [])
    assert {row["broker"] for row in done.json["brokers"]} == set(read_manifest(tmp_path / "b").clusters)


def test_tables_alone_have_no_messages(orbitmq, sent, tmp_path):
    assert orbitmq("backup", tmp_path / "b", "--no-messages", "-o", "json").json["message_count"] == 0


def test_a_directory_that_is_not_empty_is_wrong_usage(orbitmq, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    done = orbitmq("backup", tmp_path)
    assert done.code == 2
    assert "expected a new or an empty directory" in done.err


def test_a_backup_that_is_there_is_not_called_interrupted(orbitmq, sent, tmp_path):
    assert orbitmq("backup", tmp_path / "b", "--topic", sent).code == 0
    done = orbitmq("backup", tmp_path / "b", "--topic", sent)
    assert done.code == 2
    assert "interrupted" not in done.err


def test_a_part_that_is_missing_makes_exit_code_1_and_is_named(orbitmq, sent, tmp_path, monkeypatch):
    async def pull(*_):
        raise RequestTimeout("no answer")

    monkeypatch.setattr(QueueReader, "pull", pull)
    done = orbitmq("backup", tmp_path / "b", "--topic", sent)
    assert done.code == 1
    assert "stopped answering" in done.err
    assert read_manifest(tmp_path / "b").problems


def test_where_no_broker_answers_the_exit_code_is_3(orbitmq, tmp_path, monkeypatch):
    async def tables(*_):
        raise ConnectionFailed("cannot connect")

    monkeypatch.setattr(saving, "read_tables", tables)
    assert orbitmq("backup", tmp_path / "b").code == 3
    assert not (tmp_path / "b").exists()


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_backup_says_that_it_cannot_be_restored(orbitmq, sent, tmp_path, monkeypatch):
    pull = QueueReader.pull
    left = [signal.SIGINT]  # once: a second one ends the loop under those that are closing their files

    async def pull_and_interrupt(*args):
        if left:
            os.kill(os.getpid(), left.pop())
        return await pull(*args)

    monkeypatch.setattr(QueueReader, "pull", pull_and_interrupt)
    done = orbitmq("backup", tmp_path / "b", "--topic", sent)
    assert done.code == 130
    assert "has no manifest.json: the backup was interrupted" in done.err
    assert not (tmp_path / "b" / "manifest.json").exists()
