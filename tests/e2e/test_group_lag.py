"""`orbitmq group lag --watch --to` on real flights: a queue without an offset; killed, interrupted, and through an outage."""

from __future__ import annotations

import signal
import sys
import xml.etree.ElementTree as ET
from subprocess import run as run_process

import orjson
import pytest

from orbitmq.admin.client import AdminClient
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.model.route import MessageQueue
from orbitmq.monitoring.lag_samples import UNKNOWN, LagSample, encode_sample
from orbitmq.net.loop import run
from orbitmq.wire.bodies.groups import GroupConfig
from spark.jobs.killing import kill_as_soon_as, start_command
from spark.jobs.publishing import publish_flights

FLIGHTS = 400
ENDLESS = ("--watch", "--every", "0.1")


def commit(name_servers, group, topic, queue_count):
    """Let a group commit the offset 0 in some queues of a topic."""

    async def work():
        async with AdminClient(name_servers) as admin:
            await admin.create_group(GroupConfig(group=group))
        async with PullConsumer(group, name_servers) as consumer:
            queues = sorted(await consumer.queues(topic))[:queue_count]
            consumer.assign(queues)
            for queue in queues:
                consumer.seek(queue, 0)
            await consumer.commit()

    run(work())


def watch(name_servers, *words):
    """Let the command run to its end; return its process."""
    command = [sys.executable, "-m", "orbitmq", "group", "lag", *map(str, words), "-n", name_servers]
    return run_process(command, capture_output=True, text=True, check=False)


def values(file):
    return [queue for line in file.read_bytes().splitlines() for queue in orjson.loads(line)["queues"]]


@pytest.mark.interop
def test_what_is_unknown_stays_null_though_the_watch_is_killed(rocketmq_session, tmp_path):
    name_servers, topic, directory = rocketmq_session.name_servers, "lag-killed", tmp_path / "lag"
    assert publish_flights(name_servers, topic, 0, FLIGHTS) == FLIGHTS
    group, file = f"{topic}-billing", directory / "lag.jsonl"
    commit(name_servers, group, topic, 3)
    words = (group, "--topic", topic, "--to", directory)
    killed = start_command(name_servers, "group", "lag", *words, *ENDLESS)
    kill_as_soon_as(killed, lambda: file.exists() and file.read_bytes().count(b"\n") >= 2)
    with file.open("ab") as lines:
        lines.write(b'{"at_ms":1')  # and here power was cut

    again = watch(name_servers, *words, *ENDLESS, "--count", 2)

    assert again.returncode == 0, again.stderr
    assert "moments are kept in" in again.stderr
    found = values(file)
    assert len({queue["queue"] for queue in found if queue["committed"] is None}) == 1
    assert not [queue for queue in found if queue["lag"] is None and queue["committed"] is not None]
    known = {queue["queue"] for queue in found if queue["committed"] == 0 and queue["lag"] == queue["end"]}
    assert len(known) == 3
    assert sum({queue["queue"]: queue["end"] for queue in found}.values()) == FLIGHTS
    with file.open("ab") as lines:
        outage = {MessageQueue(topic, "broker-a", 0): UNKNOWN}
        lines.write(encode_sample(LagSample(4_000_000_000_000, outage, "the broker does not answer")))
    last = watch(name_servers, *words, *ENDLESS, "--count", 1)
    assert last.returncode == 0, last.stderr
    assert "?" in last.stdout
    line = ET.fromstring((directory / "lag.svg").read_text()).find(".//*[@id='lag']")
    assert line is not None
    assert line.findall(".//{*}use") == []  # one queue has no offset: the whole is unknown at every moment

    refused = watch(name_servers, "other", *words[1:], *ENDLESS)
    assert (refused.returncode, "which is for" in refused.stderr) == (2, True)
    missing = watch(name_servers, "g", "--topic", f"{topic}-none", "--to", tmp_path / "x", *ENDLESS)
    assert (missing.returncode, "No route" in missing.stderr or "no route" in missing.stderr) == (1, True)


def test_ctrl_c_ends_the_watch_with_all_samples_kept(rocketmq_session, tmp_path):
    file, topic = tmp_path / "lag.jsonl", "lag-interrupted"
    words = ("g", "--topic", topic, "--to", tmp_path, *ENDLESS)
    assert publish_flights(rocketmq_session.name_servers, topic, 0, 10) == 10
    process = start_command(rocketmq_session.name_servers, "group", "lag", *words)
    try:
        assert "TIME" in process.stdout.readline()
        process.stdout.readline()
    finally:
        process.send_signal(signal.SIGINT)
    told, _ = process.communicate()
    assert process.returncode == 0, told
    count = file.read_bytes().count(b"\n")
    assert f"{count} moments are kept in {tmp_path}" in told
    assert (tmp_path / "lag.svg").exists()
