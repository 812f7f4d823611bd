"""A million pending timers: memory, start and lateness of a broker, and what a kill -9 in the middle loses.

`make proof ARGS="--only crash/million-timers"` runs it, in some ten minutes. On a machine that is busy with something else lateness says little. The timers are
written into a broker's store by this process, 5,000 for each second of 200, as a broker writes them: through its own door. Then
brokers of their own open the store: what they take of memory, how long they need, how late they deliver, and whether anything is
missing after one of them was killed. A timer is due at the end of its step of `timerPrecisionMs`, as in Java's broker: lateness is
counted from the time that was asked for, and from the end of its step. `--json` prints one object on the last line of
standard output: the most anonymous memory in MB, the longest start and the latest timer after the end of its step in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from children import environment
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.settings.store_settings import store_config
from orbitmq.broker.timers.opening import open_timers
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.broker.topics.table import TopicTable
from orbitmq.clock import monotonic_ms, now_ms
from orbitmq.model.message import Host
from orbitmq.model.topic import TopicConfig
from orbitmq.store import Draft, ReadStatus, Store
from orbitmq.wire.messages.record import iter_records

COUNT = 1_000_000
PER_SECOND = 5_000
TOPIC = "million"


class Place(NamedTuple):
    """Where the timers are, and the steps in which they are due."""

    directory: Path
    precision_ms: int

    def step_end_ms(self, due_ms: int) -> int:
        """The end of the step in which a time is."""
        return -(-due_ms // self.precision_ms) * self.precision_ms


def config_of(place: Place) -> BrokerConfig:
    """The settings of every broker here: Java's defaults, but for the precision."""
    return BrokerConfig(
        broker_name="million",
        bind_address="127.0.0.1",
        listen_port=0,
        store_path_root_dir=place.directory,
        broker_ip1="127.0.0.1",
        timer_precision_ms=place.precision_ms,
    )


def fill(place: Place, count: int, first_due_ms: int) -> None:
    """Store timers, and put them into the wheel."""
    config = config_of(place)
    directory = place.directory
    store = Store.open(store_config(config), store_host=Host("127.0.0.1", 1))
    topics = TopicRegistry(TopicTable([TopicConfig(topic=TOPIC)]), lambda table: None, lambda then: None)
    (directory / "config").mkdir(parents=True, exist_ok=True)
    service = open_timers(
        config,
        store,
        topics,
        directory / "config" / "timermetrics",
        clock=now_ms,
        monotonic=monotonic_ms,
        random=Random(1),
    )
    for number in range(count):
        due_ms = first_due_ms + number // PER_SECOND * 1_000 + 1 + number % 1_000
        properties = {"TIMER_DELIVER_MS": str(due_ms), "UNIQ_KEY": f"{number:032X}"}
        store.append(service.waiting(Draft(TOPIC, number % 4, b"%d %d" % (number, due_ms)), properties))
        if number % 10_000 == 0:
            store.flush()
    began = time.monotonic()
    while service.timers.enqueue(now_ms()):
        pass
    print(f"put {count} timers into the wheel in {time.monotonic() - began:.1f} s")
    store.close()
    service.close()


async def serve(place: Place) -> None:
    """A broker that tells what it takes, and serves until it is killed."""
    from orbitmq.broker.app import Broker

    began = time.monotonic()
    broker = Broker(config_of(place))
    await broker.start()
    print(json.dumps({"start_s": time.monotonic() - began} | memory()), flush=True)
    peak = 0
    while True:
        await asyncio.sleep(1)
        peak = max(peak, memory()["anonymous_mb"])
        timers = broker.service.sends.timers.timers
        print(
            json.dumps({"pending": timers.pending_count, "delivered": timers.delivered_count, "peak_mb": peak}),
            flush=True,
        )


def memory() -> dict[str, int]:
    """MiB that are the process's own, and those of mapped files."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"anonymous_mb": int(found["RssAnon"].split()[0]) >> 10, "mapped_mb": int(found["RssFile"].split()[0]) >> 10}


def child(place: Place) -> subprocess.Popen[str]:
    """Start a broker in a process of its own."""
    options = ["--directory", str(place.directory), "--precision-ms", str(place.precision_ms)]
    command = [sys.executable, "-m", "crash.million_timers", *options, "--serve"]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)


def say_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next thing that a broker tells."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the broker has ended"
    return dict(json.loads(line))


def judge(place: Place, count: int) -> tuple[bool, int]:
    """Read what was delivered: how late, how much of it twice; return whether it is everything, and the latest in ms."""
    store = Store.open(store_config(config_of(place)), store_host=Host("127.0.0.1", 1))
    seen = bytearray(count)
    late: list[int] = []
    after_step: list[int] = []
    twice = 0
    for queue_id in range(4):
        offset = 0
        while (found := store.read(TOPIC, queue_id, offset, 10_000, 1 << 22)).status is ReadStatus.FOUND:
            for record in iter_records(found.body, check_crc=False):
                number, due_ms = map(int, bytes(record.body).split())
                twice += seen[number]
                if not seen[number]:
                    late.append(record.stored_at_ms - due_ms)
                    after_step.append(record.stored_at_ms - place.step_end_ms(due_ms))
                seen[number] = 1
            offset = found.next_offset
    store.close()
    for what, values in (("the time asked for", late), ("the end of its step", after_step)):
        values.sort()
        at = {share: values[int(share * (len(values) - 1))] for share in (0.0, 0.5, 0.99, 0.999, 1.0)} if values else {}
        beyond = sum(value > 1_000 for value in values)
        print(f"lateness in ms, from {what}: {at}, {beyond} later than 1 s")
    latest_ms = max(after_step, default=0)
    print(f"delivered {sum(seen):,} of {count:,}, {twice:,} twice, at most {latest_ms:,} ms after the end of a step")
    return sum(seen) == count, latest_ms


def main() -> int:
    """Fill, serve, kill in the middle, serve on, and judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, help="a temporary one when left out")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--lead-s", type=int, default=120, help="time to fill and to start before the first is due")
    parser.add_argument("--precision-ms", type=int, default=1_000, help="timerPrecisionMs")
    parser.add_argument("--no-kill", action="store_true")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(Place(options.directory, options.precision_ms)))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a temporary directory is removed
    with ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return measure(Place(directory, options.precision_ms), options)


def measure(place: Place, options: argparse.Namespace) -> int:
    """Fill a store, serve it, kill the broker unless told not to; return the exit code."""
    first_due_ms = (now_ms() // 1_000 + options.lead_s) * 1_000
    began = time.monotonic()
    fill(place, options.count, first_due_ms)
    print(f"filled in {time.monotonic() - began:.1f} s")
    end_ms = first_due_ms + (options.count // PER_SECOND + 2) * 1_000
    process = child(place)
    started = [say_of(process)]
    print("started:", started[0])
    peaks_mb = [started[0]["anonymous_mb"]]
    if not options.no_kill:
        while now_ms() < (first_due_ms + end_ms) // 2:
            told = say_of(process)
        print("killed with", told)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        peaks_mb.append(told["peak_mb"])
        process = child(place)
        started.append(say_of(process))
        print("started after kill -9:", started[1])
    while now_ms() < end_ms or told["pending"]:
        told = say_of(process)
    print("at the end", told)
    process.terminate()
    process.wait()
    has_all, latest_ms = judge(place, options.count)
    if options.json:
        memory_mb = max(*peaks_mb, told["peak_mb"]) * 2**20 / 1e6
        start_s = max(start["start_s"] for start in started)
        print(
            json.dumps(
                {"timers": options.count, "memory_mb": memory_mb, "start_s": start_s, "late_s": latest_ms / 1000}
            )
        )
    return 0 if has_all else 1


if __name__ == "__main__":
    sys.exit(main())
