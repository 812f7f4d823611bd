"""Requests about cold data (2001 to 2004) and RocksDB (354, 355), which this broker does not have, and says so.

Java can hold back groups that read what is no longer in memory (coldDataFlowControlEnable, off by default).

Source: Java AdminBrokerProcessor, ColdDataCgCtrService.
"""

from __future__ import annotations

import orjson

from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers import (
    CheckRocksdbQueues,
    ExportRocksdbTables,
    GetColdDataControl,
    RemoveColdDataControl,
    SetCommitLogReadMode,
    UpdateColdDataControl,
)

NORMAL, RANDOM = 0, 1
"""Java: LibC.MADV_NORMAL, MADV_RANDOM."""
_NO_GROUPS = {
    "cgColdReadThreshold": 3_145_728,
    "configTable": {},
    "globalAcc": 0,
    "globalColdReadThreshold": 104_857_600,
}
"""Java's answer while no group is held back, with its default thresholds."""

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(UpdateColdDataControl)
def update_cold_data_control(broker: BrokerService, call: Call[UpdateColdDataControl]) -> Reply:
    """Refuse: no group is ever held back."""
    raise Rejected(
        ResponseCode.SYSTEM_ERROR, "cold data flow control is off: this broker has none (coldDataFlowControlEnable)"
    )


@handlers.on(RemoveColdDataControl)
def remove_cold_data_control(broker: BrokerService, call: Call[RemoveColdDataControl]) -> Reply:
    """Answer that a group has no threshold any more: it never had one."""
    return Reply()


@handlers.on(GetColdDataControl)
def get_cold_data_control(broker: BrokerService, call: Call[GetColdDataControl]) -> Reply:
    """Answer that no group has a threshold, and none was held back."""
    return Reply(body=orjson.dumps({**_NO_GROUPS, "runtimeTable": {}}))


@handlers.on(SetCommitLogReadMode)
def set_commit_log_read_mode(broker: BrokerService, call: Call[SetCommitLogReadMode]) -> Reply:
    """Take the mode that is in use, which lets the system read ahead as it likes, and refuse the other one."""
    mode = call.header.mode
    if mode == NORMAL:
        return Reply(remark=f"set commitlog readahead mode success, mode: {mode}")
    if mode == RANDOM:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "reading ahead cannot be switched off in this broker")
    raise Rejected(ResponseCode.INVALID_PARAMETER, "set commitlog readahead mode param value error")


_NOT_OK = 1
"""Java: CheckRocksdbCqWriteResult.CheckStatus.CHECK_NOT_OK."""
_TABLES = ("topics", "subscriptionGroups", "consumerOffsets")


@handlers.on(CheckRocksdbQueues)
def check_rocksdb_queues(broker: BrokerService, call: Call[CheckRocksdbQueues]) -> Reply:
    """Answer that there is nothing to compare, which Java finds out in the background, and writes into its log."""
    found = "rocksdbCQWriteEnable is false, checkRocksdbCqWriteProgressCommand is invalid"
    return Reply(body=orjson.dumps({"checkResult": found, "checkStatus": _NOT_OK}))


@handlers.on(ExportRocksdbTables)
def export_rocksdb_tables(broker: BrokerService, call: Call[ExportRocksdbTables]) -> Reply:
    """Answer that the tables are JSON files already."""
    for name in filter(None, call.header.config_type.split(";")):
        if name.strip().lower() not in map(str.lower, _TABLES):
            remark = f"configType: {name:.80} is none of {', '.join(_TABLES)}"
            raise Rejected(ResponseCode.SYSTEM_ERROR, remark)
    return Reply(remark="export done: these tables are JSON files already")
