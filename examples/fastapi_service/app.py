"""An HTTP service that takes orders and sends each as a message: 202 means that the broker has it.

    pip install orbitmq fastapi uvicorn
    orbitmq up                                          # in another terminal
    NAMESRV_ADDR=127.0.0.1:9876 uvicorn app:app
    curl -i localhost:8000/orders --json '{"id": "A-1", "item": "tea", "quantity": 2}'
    curl -i localhost:8000/health/ready

| request | answer |
|---|---|
| `POST /orders` | 202: the order is in the database and its message is delivered; on any error neither is (a transaction) |
| `POST /orders/plain` | 202: the broker has the message; the service itself keeps nothing |
| `GET /health/ready` | 200 while the producer knows brokers that take orders, otherwise 503 and the reason |

Both posts answer with the message's id, 422 to an invalid order, 409 to one that is taken already, and 503 when no
broker takes it now: the caller may try again with the same id.

SIGTERM ends the service gracefully: uvicorn takes no new connection and lets running requests end, then the lifespan
closes the producer. Give uvicorn `--timeout-graceful-shutdown 20`, and systemd (`TimeoutStopSec`) or Kubernetes
(`terminationGracePeriodSeconds`) more than that.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from orbitmq import ClientError, Decision, Message, StoredMessage, TransactionProducer

NAME_SERVERS = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
DATABASE = Path(os.environ.get("DATABASE", "orders.db"))
TOPIC = "orders"
STORE_TIMEOUT_S = 5
SEND_TIMEOUT_MS = 5_000


class Order(BaseModel):
    """An order, as callers post it; the id is theirs, so that they can try again."""

    id: str = Field(pattern=r"^\S+$", max_length=64)
    item: str = Field(min_length=1, max_length=200)
    quantity: int = Field(ge=1, le=1_000)


class Accepted(BaseModel):
    """The answer to an order that is taken."""

    message_id: str


class Orders:
    """The table of orders, each with the id of its message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as database:
            database.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, message_id TEXT, body TEXT)")

    def store(self, order: Order, message_id: str) -> None:
        """Store an order; sqlite3.IntegrityError when it is stored already."""
        with self._open() as database:
            database.execute("INSERT INTO orders VALUES (?, ?, ?)", (order.id, message_id, order.model_dump_json()))

    def has(self, message_id: str) -> bool:
        """Return True if the order of a message is stored."""
        with self._open() as database:
            found = database.execute("SELECT 1 FROM orders WHERE message_id = ?", (message_id,))
            return found.fetchone() is not None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=STORE_TIMEOUT_S)) as database, database:
            yield database


def check(message: StoredMessage) -> Decision:
    """Tell a broker how a transaction has ended: it asks when a process died, or its decision was lost."""
    if orders.has(message.message_id):
        return Decision.COMMIT
    age_s = time.time() - message.born_at_ms / 1_000
    # Another process of this service may be about to store it: rolled back now, its order would have no message.
    return Decision.UNKNOWN if age_s < 60 else Decision.ROLLBACK


orders = Orders(DATABASE)
producer = TransactionProducer(
    "orders-service", NAME_SERVERS, check=check, topics=[TOPIC], send_timeout_ms=SEND_TIMEOUT_MS
)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Keep the producer open while the service runs; closing it waits for what is under way."""
    async with producer:
        yield


app = FastAPI(title="Orders", lifespan=lifespan)


@app.post("/orders", status_code=202)
async def take(order: Order) -> Accepted:
    """Store an order and send its message, or do neither."""
    try:
        async with producer.transaction(message_of(order)) as transaction:
            await asyncio.to_thread(orders.store, order, transaction.sent.message_id)
    except sqlite3.IntegrityError as error:  # the transaction is rolled back: consumers see no second message
        raise HTTPException(409, f"order {order.id} is taken already") from error
    return Accepted(message_id=transaction.sent.message_id)


@app.post("/orders/plain", status_code=202)
async def send(order: Order) -> Accepted:
    """Send an order's message."""
    sent = await producer.send(message_of(order))
    return Accepted(message_id=sent.message_id)


@app.get("/health/live")
async def live() -> dict[str, str]:
    """Answer as long as the process does."""
    return {"status": "live"}


@app.get("/health/ready")
async def ready() -> dict[str, str]:
    """Answer whether orders can be sent: the producer is open and knows queues of the topic."""
    queues = await producer.queues(TOPIC)
    return {"status": "ready", "queues": str(len(queues))}


@app.exception_handler(ClientError)
async def unavailable(_request: Request, error: Exception) -> JSONResponse:
    """Answer 503 where no broker takes the message now; the text names addresses and causes."""
    return JSONResponse({"detail": str(error)}, 503, {"Retry-After": "1"})


def message_of(order: Order) -> Message:
    """Return an order's message; orders of one id go to one queue, and are found by their key."""
    return Message(TOPIC, order.model_dump_json().encode(), tag="new", keys=[order.id], sharding_key=order.id)
