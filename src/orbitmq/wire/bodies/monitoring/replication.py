"""The slaves of a master, as its administrators see them.

Source: Java HARuntimeInfo.
"""

from __future__ import annotations

from typing import Any

import orjson


def encode_replication_status(log_end: int) -> bytes:
    """Encode the answer of a master without slaves to GET_BROKER_HA_STATUS.

    Args:
        log_end: where its CommitLog ends.
    """
    no_client: dict[str, Any] = {
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterFlushOffset": 0,
        "maxOffset": 0,
        "transferredByteInSecond": 0,
    }
    return orjson.dumps(
        {
            "haClientRuntimeInfo": no_client,
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
            "masterCommitLogMaxOffset": log_end,
        }
    )
