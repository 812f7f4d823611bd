"""The slaves of a master, as its administrators see them.

Source: Java HARuntimeInfo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson


class SlaveStatus(NamedTuple):
    """One slave of a master. Offsets and sizes in bytes.

    Args:
        address: the slave's end of its connection, as host:port.
        acknowledged: up to where it has the log.
        sent: up to where it was sent.
    """

    address: str
    acknowledged: int
    behind: int
    is_in_sync: bool
    size_per_second: int
    sent: int


def encode_replication_status(log_end: int, slaves: Sequence[SlaveStatus] = (), master: str | None = None) -> bytes:
    """Encode a broker's answer to GET_BROKER_HA_STATUS.

    Args:
        log_end: where its CommitLog ends.
        master: of a slave: whom it follows, as host:port.
    """
    client: dict[str, Any] = {
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterFlushOffset": 0,
        "maxOffset": 0,
        "transferredByteInSecond": 0,
    }
    if master is not None:
        client |= {"masterAddr": master, "maxOffset": log_end}
    connections = [
        {
            "addr": slave.address,
            "diff": slave.behind,
            "inSync": slave.is_in_sync,
            "slaveAckOffset": slave.acknowledged,
            "transferFromWhere": slave.sent,
            "transferredByteInSecond": slave.size_per_second,
        }
        for slave in slaves
    ]
    return orjson.dumps(
        {
            "haClientRuntimeInfo": client,
            "haConnectionInfo": connections,
            "inSyncSlaveNums": sum(slave.is_in_sync for slave in slaves),
            "master": master is None,
            "masterCommitLogMaxOffset": log_end if master is None else 0,
        }
    )
