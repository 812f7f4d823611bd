"""A Java 5.3.3 broker and ours with the same settings, each with a NameServer of its own kind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from compat.broker.sides import Side, say_yes
from compat.broker.steps import BROKER_NAME, CLUSTER
from hostile.served import serving
from interop.peers import JavaBroker, JavaNameServer
from orbitmq.testing import LocalCluster
from orbitmq.wire.command import Command
from orbitmq.wire.signature import Credentials

POOLS = (
    "sendMessage", "putMessageFuture", "pullMessage", "litePullMessage", "processReplyMessage", "queryMessage", "adminBroker",
    "clientManage", "consumerManage", "heartbeat", "endTransaction", "ackMessage",
)  # fmt: skip
"""Of one thread each: requests of one kind are carried out in the order in which they come."""
JAVA_SETTINGS: dict[str, object] = {
    **{f"{pool}ThreadPoolNums": 1 for pool in POOLS},
    "enablePropertyFilter": "true",
    "transactionCheckInterval": 3_600_000,
    "mappedFileSizeCommitLog": 64 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 300,
}
OUR_SETTINGS = {
    "broker_cluster_name": CLUSTER,
    "enable_property_filter": True,
    "transaction_check_interval": 3_600_000,
    "max_transfer_count_on_message_in_memory": 32,
    "max_transfer_bytes_on_message_in_memory": 256 * 1024,
    "mapped_file_size_commit_log": 64 * 1024 * 1024,
    "mapped_file_size_consume_queue": 20 * 300,
}


@contextlib.contextmanager
def both_brokers(
    home: Path,
    *,
    is_quick: bool = False,
    javas: Mapping[str, object] | None = None,
    ours: Mapping[str, object] | None = None,
    answer: Callable[[Command], Command] = say_yes,
    superuser: Credentials | None = None,
) -> Iterator[tuple[Side, Side]]:
    """Run both; yields how a scenario talks to them.

    Args:
        is_quick: Java's broker has a NameServer of ours, which starts sooner.
        javas: more settings of Java's broker.
        ours: more settings of our broker.
        answer: what a client answers to what a broker asks.
        superuser: who signs what is asked besides the scenarios.
    """
    with contextlib.ExitStack() as running:
        cluster = running.enter_context(
            LocalCluster.running(data_dir=home / "ours", settings={**OUR_SETTINGS, **(ours or {})})
        )
        if is_quick:
            name_server = running.enter_context(serving(home / "nameserver")).address
        else:
            name_server = running.enter_context(JavaNameServer(home / "nameserver")).address
        settings = {**JAVA_SETTINGS, **(javas or {})}
        broker = JavaBroker(home / "java", name_server, name=BROKER_NAME, cluster=CLUSTER, properties=settings)
        running.callback(broker.kill)
        broker.start()
        places = {"Java's broker": broker.address, "our broker": cluster.brokers[BROKER_NAME]}
        java, our = (Side(name, place, answer=answer, superuser=superuser) for name, place in places.items())
        try:
            yield java, our
        finally:
            for side in (java, our):
                side.end()
