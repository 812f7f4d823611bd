"""The cluster of a shop: topics, groups with members and lag, dead letters, traces, delayed messages, and a transaction that waits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq import ConsumeFrom, Decision, Message, Producer, PushConsumer, StoredMessage, TransactionProducer
from orbitmq.admin import AdminClient, ResetTo
from orbitmq.admin.traces import find_way
from orbitmq.dashboard.app import Dashboard, DashboardOptions
from orbitmq.dashboard.charts import History, Key
from orbitmq.dashboard.messages import TRACE_TOPIC
from orbitmq.dashboard.watching import Watch
from orbitmq.model.topic import TopicConfig
from orbitmq.net.security.client_security import UNSECURED, ClientSecurity
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.groups import GroupConfig

TOPICS = {"orders": 4, "payments": 4, "shipments": 2, "invoices": 2, "stock-levels": 2, "clicks": 8, "%DLQ%billing": 1}
ORDERS = 40
CUSTOMERS = ("Ada", "Grace", "Edsger", "Barbara", "Donald")


@dataclass(frozen=True, slots=True)
class Shop:
    """A cluster with something on every page, its dashboard, and the id of one traced message."""

    cluster: LocalCluster
    dashboard: Dashboard
    producer: Producer
    message_id: str
    client_id: str

    def url(self, path: str) -> str:
        """Return the address of a page."""
        return self.dashboard.url.rstrip("/") + path

    @property
    def watch(self) -> Watch:
        """The dashboard's looks at the cluster."""
        watch: Watch = self.dashboard._app.state.watch
        return watch


@asynccontextmanager
async def serving_dashboard(
    name_servers: str, security: ClientSecurity = UNSECURED, timeout_ms: int = 3_000, **options: Any
) -> AsyncIterator[Dashboard]:
    """Serve a dashboard on a free port; `options` are of `DashboardOptions`."""
    dashboard = Dashboard(name_servers, DashboardOptions(port=0, **options), security=security, timeout_ms=timeout_ms)
    await dashboard.start()
    try:
        yield dashboard
    finally:
        await dashboard.stop()


def order(number: int) -> Message:
    """Return the message of an order."""
    items = [{"article": f"A-{number % 7}{number % 3}", "quantity": number % 4 + 1}]
    document = {"order": 7000 + number, "customer": CUSTOMERS[number % 5], "total": 19.9 + number, "items": items}
    properties = {"country": ("DE", "FR", "PL")[number % 3], "total": str(20 + number)}
    tag = "cancelled" if number % 9 == 8 else "new"
    return Message("orders", json.dumps(document).encode(), tag, [f"order-{7000 + number}"], properties)


NEW_ORDERS = [number for number in range(ORDERS) if order(number).tag == "new"]


@asynccontextmanager
async def shop(data_dir: Path, brokers: int = 1) -> AsyncIterator[Shop]:
    """Run the cluster of a shop and its dashboard."""
    done: set[str] = set()

    async def bill(message: StoredMessage) -> None:
        done.update(message.keys)

    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster(brokers=brokers, data_dir=data_dir))
        servers = cluster.name_servers
        admin = await stack.enter_async_context(AdminClient(servers))
        for topic, queues in TOPICS.items():
            await admin.create_topic(TopicConfig(topic=topic, read_queue_count=queues, write_queue_count=queues))
        for group in ("billing", "fulfilment", "fraud-check", "mailing"):
            await admin.create_group(GroupConfig(group=group))
        producer = await stack.enter_async_context(Producer("webshop", servers, trace=True))
        consumer = PushConsumer(
            "billing", servers, message_handler=bill, trace=True, consume_from=ConsumeFrom.FIRST, max_attempts=3
        )
        consumer.subscribe("orders", tag="new")
        await stack.enter_async_context(consumer)
        sent = [await producer.send(order(number)) for number in range(ORDERS)]
        for number in range(120):
            topic = ("payments", "shipments", "invoices", "clicks")[number % 4]
            await producer.send(Message(topic, b'{"number": %d}' % number, keys=[f"{topic[:2]}-{number}"]))
        for group, topic, to in (
            ("fulfilment", "orders", ResetTo.earliest()),
            ("fraud-check", "payments", ResetTo.earliest()),
            ("mailing", "shipments", ResetTo.latest()),
        ):
            await admin.reset_group(group, topic, to)
        for number, reason in enumerate(("no such account", "card declined", "amount is negative")):
            message = order(number)
            properties = {**message.properties, "DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": f"id-{number}"}
            body = json.dumps({"order": 6800 + number, "refused": reason}).encode()
            await producer.send(Message("%DLQ%billing", body, keys=[f"order-{6800 + number}"], properties=properties))
        for minutes in (5, 30, 120):
            await producer.send(Message("invoices", b'{"reminder": 1}', delay_ms=minutes * 60_000))
        await producer.send(Message("invoices", b'{"reminder": 2}', delay_level=16))
        payer = TransactionProducer("checkout", servers, check=lambda _message: Decision.UNKNOWN)  # it goes on
        await stack.enter_async_context(payer)
        await stack.enter_async_context(payer.transaction(Message("payments", b'{"amount": 12}')))
        while not (members := (await admin.group_status("billing")).clients) or len(done) < len(NEW_ORDERS):
            await asyncio.sleep(0.05)
        while {"sent", "stored", "consumed"} - {
            step.name for step in (await find_way(admin, TRACE_TOPIC, sent[3].message_id)).steps
        }:
            pass
        dashboard = await stack.enter_async_context(serving_dashboard(servers))
        made = Shop(cluster, dashboard, producer, sent[3].message_id, members[0].client_id)
        await made.watch.look()
        add_history(made.watch)
        yield made


def add_history(watch: Watch) -> None:
    """Record an hour of lags and rates, as they are after a burst of orders."""
    now_ms = time.time_ns() // 1_000_000
    now = {group: watch.history.of(("lag", group))[-1].value or 0 for group in ("billing", "fulfilment", "fraud-check")}
    watch.history = History()  # the looks of the test's first moment are none of that hour
    for minute in range(-58, 1):
        since = minute + 40  # the burst begins 40 minutes ago, and takes 4 to come and 30 to be read
        burst, noise = max(0, min(since * 80, 320 - (since - 4) * 11)), (minute * 7) % 11 * (minute != 0)
        values: dict[Key, float | None] = {("lag", group): lag + burst + noise for group, lag in now.items()}
        values |= {("group out", group): noise + 11 * (burst > 0) for group in now}
        values |= {
            ("topic in", "orders"): noise + 91.5 * (0 < since < 5),
            ("topic out", "orders"): noise + 33 * (burst > 0),
        }
        values |= {("disk", broker.address): 61 + minute / 20 for broker in watch.snapshot.brokers}
        watch.history.add(now_ms + minute * 60_000, values)
