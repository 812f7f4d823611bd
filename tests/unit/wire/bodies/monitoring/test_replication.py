"""A master without slaves, as Java's administrators see one."""

from __future__ import annotations

import orjson

from golden import golden
from orbitmq.wire.bodies.monitoring.replication import encode_replication_status


def test_a_master_without_slaves_looks_as_javas_does() -> None:
    java = orjson.loads(golden("907-get-broker-ha-status-answer").body)
    assert orjson.loads(encode_replication_status(java["masterCommitLogMaxOffset"])) == java
