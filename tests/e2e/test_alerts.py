"""`orbitmq alerts` on a cluster of its own, of which a broker is killed: one alert, though the command is killed as well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.model.topic import TopicConfig
from orbitmq.monitoring.incident_watch import IncidentWatch
from orbitmq.net.loop import run
from orbitmq.net.security.client_security import load_security
from orbitmq.testing.cluster import LocalCluster
from spark.jobs.killing import kill_as_soon_as, start_command

VANISHED = "RocketmqNameServerBrokerCountDropped", "DefaultCluster/broker-b:0"


@pytest.fixture
def name_servers():
    """Run a NameServer and a broker, which has the topic of notices."""
    with LocalCluster.running() as local:

        async def make():
            async with AdminClient(local.name_servers) as admin:
                await admin.create_topic(TopicConfig(topic="notices", read_queue_count=2, write_queue_count=2))

        run(make())
        yield local.name_servers


@contextmanager
def broker(name_servers, directory):
    """Run a broker more, which may be killed."""
    words = ("broker", "-n", name_servers, "--name", "broker-b", "--host", "127.0.0.1", "--port", "0")
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq", *words, "--data-dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        yield process
    finally:
        process.kill()
        process.communicate()


def told(name_servers):
    watch = IncidentWatch(name_servers, load_security(None), 3_000, "notices", print)
    return sorted((notice.state, notice.rule, notice.subject) for notice in run(watch.read_notices()))


def watch(name_servers, looks):
    """Let the command run to its end, where it says what is open."""
    process = start_command(name_servers, "alerts", "notices", "--every", "0.1", "--looks", looks)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "open" in output.splitlines()[-1]
    return output


def test_a_broker_that_is_killed_is_one_incident_though_the_watch_is_killed_as_well(name_servers, tmp_path):
    with broker(name_servers, tmp_path / "b") as second:
        watch(name_servers, 2)
        assert told(name_servers) == []
        killed = start_command(name_servers, "alerts", "notices", "--every", "0.1")
        second.kill()
        kill_as_soon_as(killed, lambda: bool(told(name_servers)))
        assert "watching: 1 incidents are open" in watch(name_servers, 3)
        assert told(name_servers) == [("begun", *VANISHED)]
    with broker(name_servers, tmp_path / "b"):
        watch(name_servers, 2)
    assert told(name_servers) == [("begun", *VANISHED), ("over", *VANISHED)]


def test_ctrl_c_ends_the_watch_with_what_is_open(name_servers):
    process = start_command(name_servers, "alerts", "notices", "--every", "0.1")
    try:
        assert process.stdout is not None
        assert "watching" in process.stdout.readline()
        assert "servers answer" in process.stdout.readline()
    finally:
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert (process.returncode, "0 incidents are open" in output.splitlines()[-1]) == (0, True), output


def test_a_watch_in_the_background_of_a_script_ends_with_sigterm_and_says_what_is_open(name_servers):
    words = f"'{sys.executable}' -m orbitmq alerts notices --every 0.1 -n {name_servers} 2>&1"
    script = f"{words} & echo $!; wait $!; echo code $?"  # a shell's background ignores SIGINT
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        watch = int(process.stdout.readline())
        try:
            assert "watching" in process.stdout.readline()
            assert "servers answer" in process.stdout.readline()
            os.kill(watch, signal.SIGTERM)
            timer = threading.Timer(20, os.kill, (watch, signal.SIGKILL))
            timer.start()
            output = process.stdout.read()
        finally:
            timer.cancel()
    assert ("0 incidents are open" in output.splitlines()[-2], output.splitlines()[-1]) == (True, "code 0"), output
