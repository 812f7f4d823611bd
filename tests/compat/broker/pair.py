"""A Java 5.3.3 broker and ours with the same settings, each with a NameServer of its own kind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from compat.broker.sides import Side
from compat.broker.steps import BROKER_NAME, CLUSTER
from interop.peers import JavaBroker, JavaNameServer
from orbitmq.testing import LocalCluster

POOLS = (
    "sendMessage", "putMessageFuture", "pullMessage", "litePullMessage", "processReplyMessage", "queryMessage", "adminBroker",
    "clientManage", "consumerManage", "heartbeat", "endTransaction", "ackMessage",
)  # fmt: skip
"""Of one thread each: requests of one kind are carried out in the order in which they come."""
JAVA_SETTINGS: dict[str, object] = {
    **{f"{pool}ThreadPoolNums": 1 for pool in POOLS},
    "enablePropertyFilter": "true",
    "transactionTimeOut": 3_600_000,
    "mappedFileSizeCommitLog": 64 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 300,
}
OUR_SETTINGS = {
    "broker_cluster_name": CLUSTER,
    "enable_property_filter": True,
    "transaction_time_out": 3_600_000,
    "max_transfer_count_on_message_in_memory": 32,
    "max_transfer_bytes_on_message_in_memory": 256 * 1024,
    "mapped_file_size_commit_log": 64 * 1024 * 1024,
    "mapped_file_size_consume_queue": 20 * 300,
}


@contextlib.contextmanager
def both_brokers(home: Path) -> Iterator[tuple[Side, Side]]:
    """Run both; yields how a story talks to them."""
    with contextlib.ExitStack() as running:
        cluster = running.enter_context(LocalCluster.running(data_dir=home / "ours", settings=OUR_SETTINGS))
        name_server = JavaNameServer(home / "nameserver")
        running.callback(name_server.kill)
        name_server.start()
        broker = JavaBroker(
            home / "java", name_server.address, name=BROKER_NAME, cluster=CLUSTER, properties=JAVA_SETTINGS
        )
        running.callback(broker.kill)
        broker.start()
        java, ours = Side("Java's broker", broker.address), Side("our broker", cluster.brokers[BROKER_NAME])
        try:
            yield java, ours
        finally:
            for side in (java, ours):
                side.end()
