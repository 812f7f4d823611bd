"""SIGTERM, as containers send it: each family of commands finishes what is under way and says or stores how far it came."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from children import environment
from examples.quickstart.embedded import embedded_cluster
from orbitmq import Message, Producer, blocking
from orbitmq.admin.client import AdminClient
from orbitmq.model.topic import TopicConfig
from waiting import wait_for

ROOT = Path(__file__).parents[2]
ORBITMQ = (sys.executable, "-m", "orbitmq")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("termination")


@pytest.fixture(scope="module")
def name_servers(directory: Path) -> Iterator[str]:
    with embedded_cluster(directory) as address:
        yield address


@contextmanager
def running(*words: str, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """A program whose output is read here; it is gone at the end."""
    process = subprocess.Popen(
        words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def terminate(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Send SIGTERM; return the exit code, and what was still written to stdout and stderr."""
    process.send_signal(signal.SIGTERM)
    # Not communicate(): it passes over what readline() has read ahead.
    out, err = process.stdout.read(), process.stderr.read()
    return process.wait(), out, err


def send(name_servers: str, topic: str, count: int) -> list[str]:
    with blocking.Producer("makers", name_servers) as producer:
        producer.send_all(Message(topic, b"%d" % number) for number in range(count))
    return [str(number) for number in range(count)]


def test_a_group_that_follows_reads_nothing_twice_and_leaves_nothing_out(name_servers):
    sent = send(name_servers, "followed", 3_600)
    command = (*ORBITMQ, "consume", "followed", "--group", "followers", "-n", name_servers, "-F", r"%s\n")
    with running(*command, "--follow") as following:
        first = [following.stdout.readline().strip() for _ in range(1_792)]
        code, rest, err = terminate(following)
    assert (code, err) == (0, "")
    with running(*command) as reading:
        others, _ = reading.communicate()
    assert sorted(first + rest.split() + others.split(), key=int) == sent


def test_a_send_from_a_pipe_says_how_much_was_sent(name_servers):
    with running(*ORBITMQ, "send", "piped", "-o", "json", "-n", name_servers, stdin=subprocess.PIPE) as sending:
        for number in range(3):
            sending.stdin.write(f"{number}\n")
            sending.stdin.flush()
            assert json.loads(sending.stdout.readline())["status"] == "SEND_OK"
        code, out, err = terminate(sending)
    assert (code, out) == (130, "")
    assert err.startswith("sent 3 messages in ")


def test_dead_letters_that_were_sent_again_are_told_with_the_place_to_go_on(name_servers):
    # So many that the lines about them do not fit into the pipe: the command cannot be done before it is ended.
    sent = [str(number) for number in range(1_000)]

    async def bury() -> None:
        async with AdminClient(name_servers) as admin:
            await admin.create_topic(TopicConfig(topic="%DLQ%buried", read_queue_count=1, write_queue_count=1))
        async with Producer("makers", name_servers) as producer:
            letters = [Message("%DLQ%buried", number.encode()) for number in sent]
            await asyncio.gather(*map(producer.send, letters))

    asyncio.run(bury())
    command = (*ORBITMQ, "dlq", "resend", "buried", "--topic", "again", "-n", name_servers)
    with running(*command) as resending:
        resending.stdout.readline()
        code, _, err = terminate(resending)
    assert code == 130
    told = re.fullmatch(r"(\d+) dead letters were sent before that; go on with --from (\S+)\n", err)
    assert told is not None, err
    with running(*command, "--from", told[2]) as resending:
        _, err = resending.communicate()
    assert err.startswith(f"{len(sent) - int(told[1])} dead letters sent")
    with running(*ORBITMQ, "consume", "again", "-n", name_servers) as reading:
        again = reading.communicate()[0].split()
    assert set(again) == set(sent)
    assert len(again) - len(sent) in (0, 1), "the letter that was under way may come twice"


def test_a_program_that_ends_as_the_how_to_says_stores_its_offsets(name_servers):
    send(name_servers, "orders", 8)
    page = (ROOT / "docs" / "howto" / "clients.md").read_text(encoding="utf-8")
    (program,) = [
        block for block in re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "SIGTERM" in block
    ]
    with running(sys.executable, "-c", f"name_servers = {name_servers!r}\n{program}") as billing:
        first = {billing.stdout.readline().strip() for _ in range(8)}
        assert terminate(billing) == (0, "", "")
    assert first == set(map(str, range(8)))
    send(name_servers, "orders", 9)
    with running(*ORBITMQ, "consume", "orders", "--group", "billing-service", "-n", name_servers) as reading:
        assert len(reading.communicate()[0].split()) == 9


def test_a_dump_of_a_store_ends_in_the_middle_without_a_traceback(name_servers, directory):
    send(name_servers, "dumped", 3_000)  # more lines than the pipe takes
    (log,) = directory.rglob("commitlog")
    with running(*ORBITMQ, "store", "dump", str(log.parent)) as dumping:
        dumping.stdout.readline()
        code, _, err = terminate(dumping)
    assert (code, err) == (130, "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the benchmarks need Linux")
def test_a_benchmark_leaves_no_server_behind():
    words = (sys.executable, "-m", "benchmarks", "--peers", "ours", "--only", "start-nameserver", "--runs", "1000000")
    with running(*words) as measuring:
        me = psutil.Process(measuring.pid)

        def its_servers():
            assert measuring.poll() is None, measuring.communicate()
            return [child for child in me.children() if "nameserver" in child.cmdline()]

        servers = wait_for(its_servers, "a server of the benchmark", errors=psutil.NoSuchProcess)
        code, _, _ = terminate(measuring)
    assert code == 143
    assert not any(server.is_running() for server in servers)
