"""A worker of a consumer group: writes an invoice for every order, once, and ends without losing work.

    pip install orbitmq
    orbitmq up                                          # in another terminal
    NAMESRV_ADDR=127.0.0.1:9876 python worker.py
    orbitmq send orders '{"id": "A-1", "cents": 1250}'

- An order that can be billed is acknowledged once its invoice is stored.
- One that cannot be billed now (the database is locked) goes back to its broker, which delivers it again after 10 s,
  30 s, 1 min ... and puts it with the group's dead letters after `MAX_ATTEMPTS` deliveries.
- One that can never be billed (no JSON, no amount) is a dead letter immediately: `orbitmq dlq show billing`.
- An order may come twice: after a crash, or because its producer tried again. The invoices' primary key is the order's
  id, so the second one changes nothing.
- SIGTERM or Ctrl-C: no new order is begun, the ones in handling end, the offsets are stored, the process ends with 0.
- The log is one JSON object a line, the library's own lines included.

Run as many as the topic has queues: the group divides them. By systemd:

    [Service]
    ExecStart=/opt/billing/bin/python /opt/billing/worker.py
    Environment=NAMESRV_ADDR=10.0.0.1:9876;10.0.0.2:9876 DATABASE=/var/lib/billing/invoices.db
    StateDirectory=billing
    Restart=always
    TimeoutStopSec=20

In a container, the signal has to reach Python, which the exec form of CMD sees to; the platform waits for the process
(`terminationGracePeriodSeconds: 20`, `docker stop --time 20`) before it kills it:

    CMD ["python", "worker.py"]
"""

import asyncio
import json
import logging
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from orbitmq import Batch, ConsumeFrom, PushConsumer

NAME_SERVERS = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
DATABASE = Path(os.environ.get("DATABASE", "invoices.db"))
STORE_TIMEOUT_S = 3
"""Less than the 5 s that a closing consumer waits for its handlers."""
MAX_ATTEMPTS = 6

log = logging.getLogger("billing")


class InvalidOrder(Exception):
    """An order that no attempt can bill."""


class Order(NamedTuple):
    """What an invoice needs of an order."""

    id: str
    cents: int


def parse_order(body: bytes) -> Order:
    """Return the order of a message's body; InvalidOrder says what is wrong with it."""
    try:
        document = json.loads(body)
        order = Order(document["id"], document["cents"])
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidOrder(f"{type(error).__name__}: {error}") from error
    if not isinstance(order.id, str) or not order.id:
        raise InvalidOrder(f"id is {order.id!r}, expected a text")
    if type(order.cents) is not int or order.cents < 0:
        raise InvalidOrder(f"cents is {order.cents!r}, expected a whole number, 0 or more")
    return order


class Invoices:
    """The table of invoices: one for an order, however often it comes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS invoices (order_id TEXT PRIMARY KEY, cents INTEGER NOT NULL)")

    def add(self, order: Order) -> bool:
        """Store an order's invoice; return False when there is one already."""
        with self._open() as database:
            return database.execute("INSERT OR IGNORE INTO invoices VALUES (?, ?)", order).rowcount == 1

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=STORE_TIMEOUT_S)) as database, database:
            yield database


class Billing:
    """Handles orders; what a message fails with decides whether it comes again."""

    def __init__(self, invoices: Invoices) -> None:
        self._invoices = invoices

    async def handle(self, batch: Batch) -> None:
        """Handle a batch of one message. Any other error than those below counts as failed, too: it comes again."""
        (message,) = batch
        about = {"message_id": message.message_id, "attempt": message.attempt}
        write("handling", about)
        try:
            order = parse_order(message.body)
            about["order"] = order.id
            is_new = await asyncio.to_thread(self._invoices.add, order)
        except InvalidOrder as error:
            batch.reject()
            write("rejected", about | {"reason": str(error)}, logging.ERROR)
        except sqlite3.OperationalError as error:
            batch.retry()
            write("failed, comes again", about | {"reason": str(error)}, logging.WARNING)
        else:
            batch.commit()
            write("billed" if is_new else "billed before", about)


class JsonFormatter(logging.Formatter):
    """Formats a line of the log as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        line |= getattr(record, "about", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def write(text: str, about: dict[str, object], level: int = logging.INFO) -> None:
    """Log an event of a message."""
    log.log(level, text, extra={"about": about})


async def main() -> None:
    """Consume until a signal says to end."""
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    billing = Billing(Invoices(DATABASE))
    consumer = PushConsumer(
        "billing",
        NAME_SERVERS,
        handler=billing.handle,
        batch_count_max=1,  # so that an end waits for one order of each queue, not for a batch of them
        max_attempts=MAX_ATTEMPTS,
        consume_from=ConsumeFrom.FIRST,
    )
    consumer.subscribe("orders")
    async with consumer:
        log.info("started")
        await end.wait()
        log.info("stopping")
    log.info("stopped")


if __name__ == "__main__":
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    asyncio.run(main())
