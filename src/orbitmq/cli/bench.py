"""`orbitmq bench produce|consume|latency`: how fast a cluster is from here, with percentiles.

With `--rate` a send's time counts from when it was due: a broker that stops is not hidden by sends that wait behind it
(coordinated omission).
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access, command
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import FormatOption, TopicArgument
from orbitmq.cli.terminal.output import Format, say, show_rows
from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    from orbitmq.client.producer import Producer
    from orbitmq.client.pull_consumer import PullConsumer

app = typer.Typer(
    help="Measure how fast a cluster is from here. The topic gets the messages of the measurement.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)
COLUMNS = (
    "messages",
    "failed",
    "seconds",
    "per_second",
    "mb_per_second",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p99_9_ms",
    "max_ms",
)
_MARK = "orbitmq-bench"

CountOption = Annotated[int, typer.Option("--count", "-c", min=1, help="Messages in all.")]
SizeOption = Annotated[int, typer.Option("--size", "-s", min=16, max=4 * 1024 * 1024, help="Bytes of each body.")]
RateOption = Annotated[int, typer.Option("--rate", min=0, help="Messages a second; 0: as many as it takes.")]


@command(app, "produce")
async def produce(
    access: Access,
    topic: TopicArgument,
    count: CountOption = 10_000,
    size: SizeOption = 1_024,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, max=10_000, help="Sends that wait at the same time.")
    ] = 64,
    rate: RateOption = 0,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send messages, and show how many a second, and how long each took until its SEND_OK. Exit code 1 when some failed."""
    import asyncio

    from orbitmq.client.producer import Producer
    from orbitmq.model.message import Message

    body = b"x" * size
    latencies, failed = array("d"), 0
    options = access.load_security()._asdict()
    with _progress(count) as advance:
        async with Producer(_MARK, access.name_servers, send_timeout_ms=access.timeout_ms, **options) as producer:
            began_s = time.perf_counter()
            numbers = iter(range(count))

            async def work() -> None:
                nonlocal failed
                for number in numbers:
                    due_s = await _due(began_s, number, rate)
                    try:
                        await producer.send(Message(topic, body))
                    except OrbitError as error:  # each counts; the first one is said
                        failed += 1
                        if failed == 1:
                            say(f"orbitmq: {error}")
                        continue
                    latencies.append(1_000 * (time.perf_counter() - due_s))
                    advance(1)

            await asyncio.gather(*(work() for _ in range(min(in_flight, count))))
            seconds = time.perf_counter() - began_s
    show_rows([_row(latencies, failed, seconds, size)], COLUMNS, output)
    if failed:
        raise typer.Exit(ExitCode.NO)


@command(app, "consume")
async def consume(
    access: Access,
    topic: TopicArgument,
    count: CountOption = 100_000,
    output: FormatOption = Format.TABLE,
) -> None:
    """Read messages that are there from the first one on, and show how many a second. Exit code 1 when there are fewer."""
    read, size = 0, 0
    async with _reader(access) as consumer:
        queues = await consumer.queues(topic)
        ends = {queue: found.end for queue, found in (await consumer.offsets(queues)).items()}
        consumer.assign(queues)
        for queue, found in (await consumer.offsets(queues)).items():
            consumer.seek(queue, found.begin)
        began_s = time.perf_counter()
        with _progress(count) as advance:
            while read < count and any((consumer.position(queue) or 0) < end for queue, end in ends.items()):
                messages = await consumer.poll(200, min(1_000, count - read))
                read += len(messages)
                size += sum(len(message.body) for message in messages)
                advance(len(messages))
        seconds = time.perf_counter() - began_s
    rates = {"per_second": round(read / seconds), "mb_per_second": round(size / seconds / 1e6, 1)}
    row = {"messages": read, "seconds": round(seconds, 2), **rates}
    show_rows([row], ("messages", "seconds", "per_second", "mb_per_second"), output)
    if read < count:
        say(f"orbitmq: {read} of {count} messages were there")
        raise typer.Exit(ExitCode.NO)


@command(app, "latency")
async def latency(
    access: Access,
    topic: TopicArgument,
    count: CountOption = 1_000,
    size: SizeOption = 1_024,
    rate: Annotated[int, typer.Option("--rate", min=1, max=100_000, help="Messages a second.")] = 100,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send messages at a rate and read them, and show how long each took from here through the broker and back."""
    import asyncio

    from orbitmq.client.producer import Producer
    from orbitmq.model.message import Message

    latencies = array("d")
    run = f"{time.time_ns():016x}".encode()
    options = access.load_security()._asdict()
    with _progress(count) as advance:
        async with (
            Producer(_MARK, access.name_servers, send_timeout_ms=access.timeout_ms, **options) as producer,
            _reader(access) as consumer,
        ):
            await _warm_up(producer, topic)
            queues = await consumer.queues(topic)
            consumer.assign(queues)
            for queue, found in (await consumer.offsets(queues)).items():
                consumer.seek(queue, found.end)
            began_s = time.perf_counter()

            async def send() -> None:
                for number in range(count):
                    due_s = await _due(began_s, number, rate)
                    head = b"%s %.9f " % (run, due_s)
                    await producer.send(Message(topic, head + b"x" * max(0, size - len(head))))

            sending = asyncio.create_task(send())
            while len(latencies) < count:
                if sending.done() and (error := sending.exception()) is not None:
                    raise error
                for message in await consumer.poll(100, 1_000):
                    if message.body.startswith(run):
                        latencies.append(1_000 * (time.perf_counter() - float(message.body.split(b" ", 2)[1])))
                        advance(1)
            seconds = time.perf_counter() - began_s
    show_rows([_row(latencies, 0, seconds, size)], COLUMNS, output)


async def _due(began_s: float, number: int, rate: int) -> float:
    """Wait until a send is due, and return that time; without a rate it is due now."""
    import asyncio

    if not rate:
        return time.perf_counter()
    due_s = began_s + number / rate
    wait_s = due_s - time.perf_counter()
    if wait_s > 0:
        await asyncio.sleep(wait_s)
    return due_s


async def _warm_up(producer: Producer, topic: str) -> None:
    """Send one message, so that the topic and its connections are there."""
    from orbitmq.model.message import Message

    await producer.send(Message(topic, b"the first message of a measurement"))


def _reader(access: Access) -> PullConsumer:
    from orbitmq.client.pull_consumer import PullConsumer
    from orbitmq.model.group import TOOLS_GROUP

    return PullConsumer(TOOLS_GROUP, access.name_servers, **access.load_security()._asdict())


def percentiles(values: array[float]) -> dict[str, float | None]:
    """Return the percentiles of times in ms, by the names of their columns; None without any value."""
    ordered = sorted(values)
    found: dict[str, float | None] = {}
    for percent in PERCENTILES:
        name = "max_ms" if percent == 100 else f"p{percent:g}_ms".replace(".", "_")
        at = min(len(ordered) - 1, int(len(ordered) * percent / 100))
        found[name] = round(ordered[at], 2) if ordered else None
    return found


def _row(latencies: array[float], failed: int, seconds: float, size: int) -> dict[str, Any]:
    done = len(latencies)
    return {
        "messages": done,
        "failed": failed,
        "seconds": round(seconds, 2),
        "per_second": round(done / seconds),
        "mb_per_second": round(done * size / seconds / 1e6, 1),
        **percentiles(latencies),
    }


@contextmanager
def _progress(count: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal; it is taken away at the end, however that comes."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(
        BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("", total=count)
        yield lambda done: bar.advance(task, done)
