"""The command line as people run it: real processes, real signals, chosen ports."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import psutil
import pytest

from called import call_command
from waiting import wait_for

ORBITMQ = (sys.executable, "-m", "orbitmq")


def run_command(*arguments, name_servers=None, **options):
    environment = os.environ | ({"NAMESRV_ADDR": name_servers} if name_servers else {})
    return subprocess.run(
        [*ORBITMQ, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=60, **options
    )


OF_A_BUSY_MACHINE = re.compile(r"\(stopped, or busy\)|CollectsOrLags")
"""What servers say of a machine that gives them no time: other processes are not what these tests are about."""


class Server:
    """A server process after its ready line."""

    def __init__(self, process):
        self.process = process
        self.first_line = process.stdout.readline()

    @property
    def ready(self):
        return json.loads(self.first_line)

    @property
    def name_servers(self):
        return self.ready["nameserver"]

    def end(self, number=signal.SIGTERM):
        """Send a signal; return the exit code and what was written to stderr."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, "".join(
            line for line in err.splitlines(True) if not OF_A_BUSY_MACHINE.search(line)
        )

    def said(self):
        """Return the next line of stderr."""
        return next(line for line in iter(self.process.stderr.readline, "") if not OF_A_BUSY_MACHINE.search(line))


@contextlib.contextmanager
def serving(*arguments):
    process = subprocess.Popen(
        [*ORBITMQ, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.communicate()


def up(data_dir, *more):
    return serving("up", "--nameserver-port", 0, "--broker-port", 0, "--data-dir", data_dir, "-o", "json", *more)


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory):
    """Let tests that end no server share one; each has topics of its own."""
    with up(tmp_path_factory.mktemp("shared")) as server:
        yield server.name_servers
        assert server.end() == (0, "")


def test_up_serves_immediately_and_keeps_messages_over_a_restart(tmp_path):
    with up(tmp_path) as server:
        assert server.ready["event"] == "ready"
        assert server.ready["pid"] == server.process.pid
        sent = run_command("send", "orders", "kept", "--tag", "new", name_servers=server.name_servers)
        assert (sent.returncode, sent.stderr) == (0, "")
        assert server.end() == (0, "")
    assert not list(tmp_path.rglob("abort"))

    with up(tmp_path) as server:
        assert run_command("consume", "orders", name_servers=server.name_servers).stdout == "kept\n"
        assert server.end() == (0, "")


def test_a_dashboard_that_is_killed_is_started_again_and_ends_with_up(tmp_path):
    with up(tmp_path, "--dashboard", "--dashboard-port", 0) as server:
        (killed,) = psutil.Process(server.process.pid).children()
        killed.kill()
        lines = [server.said() for _ in range(2)]
        urllib.request.urlopen(server.ready["dashboard"]).close()
        (again,) = psutil.Process(server.process.pid).children()
        server.process.kill()
        wait_for(lambda: not again.is_running(), "the dashboard's end")
    assert lines == [
        "the dashboard has ended (SIGKILL); it is started again in 1 s\n",
        "the dashboard is there again\n",
    ]


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    with up(tmp_path) as server:
        run_command("send", "orders", "kept", name_servers=server.name_servers)
        server.end(signal.SIGKILL)
    with up(tmp_path) as server:
        assert run_command("consume", "orders", name_servers=server.name_servers).stdout == "kept\n"


def test_an_interrupt_is_as_clean_an_end_as_a_termination(tmp_path):
    with up(tmp_path) as server:
        assert server.ready
        assert server.end(signal.SIGINT) == (0, "")


def test_up_says_for_people_what_to_export(tmp_path):
    with serving("up", "--nameserver-port", 0, "--broker-port", 0, "--data-dir", tmp_path) as server:
        words = dict(word.split("=", 1) for word in server.first_line.split()[1:])
        assert server.first_line.startswith("ready ")
        assert server.process.stdout.readline() == f"export NAMESRV_ADDR={words['nameserver']}\n"


def test_a_directory_with_blanks_and_letters_from_anywhere_is_fine(tmp_path):
    with up(tmp_path / "daten für alle 数据") as server:
        sent = run_command("send", "orders", "x", name_servers=server.name_servers)
        assert sent.returncode == 0
        assert server.end() == (0, "")


def test_name_server_and_broker_run_apart_from_files_with_rocketmqs_keys(tmp_path):
    ns_file, broker_file = tmp_path / "namesrv.conf", tmp_path / "broker.conf"
    ns_file.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv.json\n")
    with serving("nameserver", "-c", ns_file, "-o", "json") as nameserver:
        broker_file.write_text(
            f"brokerName=from-file\nbrokerClusterName=C1\nlistenPort=0\nbrokerIP1=127.0.0.1\n"
            f"storePathRootDir={tmp_path}/store\nautoCreateTopicEnable=false\n"
        )
        with serving("broker", "-c", broker_file, "-n", nameserver.name_servers, "-o", "json") as broker:
            assert broker.ready["name"] == "from-file"
            (row,) = json.loads(run_command("cluster", "-o", "json", name_servers=nameserver.name_servers).stdout)
            assert (row["cluster"], row["broker"], row["address"]) == ("C1", "from-file", broker.ready["broker"])
            refused = run_command("send", "not-made", "x", name_servers=nameserver.name_servers)
            assert refused.returncode == 1
            assert broker.end()[0] == 0
        assert json.loads(run_command("cluster", "-o", "json", name_servers=nameserver.name_servers).stdout) == []
        assert nameserver.end()[0] == 0


def test_options_win_over_the_file(tmp_path):
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=1\nbindAddress=192.0.2.1\n")
    arguments = ("-c", file, "--host", "127.0.0.1", "--port", 0, "--data-dir", tmp_path, "-o", "json")
    with serving("nameserver", *arguments) as server:
        assert server.name_servers.startswith("127.0.0.1:")


def test_logs_of_a_server_in_a_pipe_are_json_lines(tmp_path):
    arguments = ("--host", "127.0.0.1", "--port", 0, "--data-dir", tmp_path, "-o", "json")
    with serving("nameserver", *arguments) as server:
        assert server.ready
        _, err = server.end()
    assert all(json.loads(line)["level"] for line in err.splitlines())
    assert err.splitlines()


def test_a_port_that_is_taken_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        for command in (
            ("up", "--nameserver-port", port, "--broker-port", 0, "--data-dir", tmp_path),
            ("up", "--nameserver-port", 0, "--broker-port", port, "--data-dir", tmp_path),
            ("nameserver", "--host", "127.0.0.1", "--port", port, "--log-level", "error"),
        ):
            failed = run_command(*command)
            assert failed.returncode == (255 if command[0] == "nameserver" else 1)
            assert f"{port}" in failed.stderr
            assert failed.stderr.count("\n") == 1, failed.stderr


def test_a_directory_in_use_is_one_sentence(tmp_path):
    with up(tmp_path):
        failed = run_command("up", "--nameserver-port", 0, "--broker-port", 0, "--data-dir", tmp_path)
        assert failed.returncode == 1
        assert str(tmp_path) in failed.stderr
        assert failed.stderr.count("\n") == 1, failed.stderr


def test_a_broker_needs_a_name_server(tmp_path, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", " ")
    failed = call_command("broker", "--data-dir", tmp_path)
    assert failed.returncode == 2
    assert "--name-servers" in failed.stderr


@pytest.mark.parametrize("text", ["listenPort=high\n", "listenPort=70000\n"])
@pytest.mark.parametrize(("code", "command"), [(255, ("nameserver",)), (2, ("broker", "-n", "127.0.0.1:1"))])
def test_a_bad_value_in_a_file_names_its_key(tmp_path, code, command, text):
    file = tmp_path / "conf"
    file.write_text(text)
    failed = call_command(*command, "-c", file)
    assert failed.returncode == code
    assert "listenPort" in failed.stderr


@pytest.mark.parametrize(
    ("code", "command"),
    [(255, ("nameserver",)), (2, ("broker", "-n", "127.0.0.1:1"))],
    ids=["as Java's NameServer ends", "a usage error"],
)
def test_a_file_that_is_not_there_is_named(tmp_path, code, command):
    failed = call_command(*command, "-c", tmp_path / "missing.conf")
    assert failed.returncode == code
    assert "missing.conf" in failed.stderr


def test_a_name_server_ends_as_javas_does():
    assert run_command("nameserver", "--no-such-option").returncode == 1
    assert call_command("nameserver", "-h").returncode == 0
    assert call_command("nameserver", "-p").returncode == 0
    assert call_command("broker", "--no-such-option").returncode == 2


def test_following_prints_what_comes_and_ends_with_an_interrupt(name_servers):
    run_command("send", "followed", "first", name_servers=name_servers)
    with serving("consume", "followed", "--follow", "-n", name_servers) as consumer:
        assert consumer.first_line == "first\n"
        run_command("send", "followed", "second", name_servers=name_servers)
        assert consumer.process.stdout.readline() == "second\n"
        assert consumer.end(signal.SIGINT) == (0, "")


def test_a_group_that_follows_keeps_its_place_when_it_is_interrupted(name_servers):
    run_command("send", "kept-place", "first", name_servers=name_servers)
    words = ("consume", "kept-place", "--follow", "--group", "g", "-n", name_servers)
    with serving(*words) as consumer:
        assert consumer.first_line == "first\n"
        assert consumer.end(signal.SIGINT) == (0, "")
    run_command("send", "kept-place", "second", name_servers=name_servers)
    with serving(*words) as consumer:
        assert consumer.first_line == "second\n"


def test_a_dashboard_starts_and_ends_without_a_word_of_its_web_server():
    with serving("dashboard", "-n", "127.0.0.1:1", "--port", 0, "-o", "json") as dashboard:
        assert dashboard.ready
        assert dashboard.end() == (0, "")


def test_a_command_whose_output_is_closed_ends_well(name_servers):
    command = f"'{sys.executable}' -m orbitmq cluster -n {name_servers} <&- >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_has_seen_enough_is_no_error(name_servers):
    run_command("send", "long", "x" * 200, "--count", 2000, name_servers=name_servers)
    with serving("consume", "long", "-n", name_servers) as consumer:
        consumer.process.stdout.close()
        consumer.process.stdout = None
        _, err = consumer.process.communicate(timeout=60)
        assert (consumer.process.returncode, err) == (0, "")
