"""The files of a broker as its operator sees them: while it runs, after `kill -9`, and repaired."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from called import call_command
from e2e.test_cli import up
from waiting import until


@pytest.fixture
def killed(tmp_path):
    """The store of a broker that was killed after a topic of its two was deleted."""
    with up(tmp_path) as server:
        root = next(path.parent for path in tmp_path.rglob("lock"))
        for topic in ("orders", "bills"):
            sent = call_command("send", topic, "hello", "--count", 500, name_servers=server.name_servers)
            assert sent.returncode == 0, sent.stderr
        # What is to be damaged has to be there: queue files follow the log after two seconds.
        asyncio.run(until(lambda: list(root.glob(f"consumequeue/orders/*/{0:020}")), pause_s=0.05))
        temporary = call_command("store", "check", root)
        assert (temporary.returncode, len(temporary.stdout.splitlines())) == (0, 1), temporary.stdout
        assert "while its broker runs" in temporary.stderr
        refused = call_command("store", "rebuild", root)
        assert (refused.returncode, "in use by another broker" in refused.stderr) == (1, True)
        deleted = call_command("topic", "delete", "--yes", "bills", name_servers=server.name_servers)
        assert deleted.returncode == 0, deleted.stderr
        server.end(signal.SIGKILL)
    return root


def test_a_killed_brokers_store_is_sound_and_can_be_repaired(killed):
    assert call_command("store", "check", killed).returncode == 0
    dumped = call_command("store", "dump", killed, "--topic", "orders", "-o", "json")
    assert len(dumped.stdout.splitlines()) == 500
    (queue, *_) = killed.glob(f"consumequeue/orders/*/{0:020}")
    # Without zeros: the last entries may have been in memory alone, and a rebuilding writes them, too.
    content = queue.read_bytes().rstrip(b"\0")
    queue.write_bytes(b"\xee" * 200 + content[200:])
    checked = call_command("store", "check", killed, "-o", "json")
    assert checked.returncode == 1
    named = {finding["file"] for finding in json.loads(checked.stdout) if finding["severity"] == "wrong"}
    assert named == {str(queue.relative_to(killed))}
    assert call_command("store", "rebuild", killed).returncode == 0
    assert queue.read_bytes().startswith(content)
    assert call_command("store", "check", killed).returncode == 0


def test_a_topic_that_was_deleted_before_kill_9_does_not_come_back(killed):
    with up(killed.parent) as server:
        assert not (killed / "consumequeue" / "bills").exists()
        status = call_command("topic", "show", "orders", "-o", "json", name_servers=server.name_servers)
        assert sum(row["max_offset"] for row in json.loads(status.stdout)) == 500
        listed = call_command("topic", "list", name_servers=server.name_servers)
        assert "bills" not in listed.stdout
        assert server.end() == (0, "")
