"""Requests about tables and consume queues in RocksDB (354, 355): this broker keeps all of them in files, and says so.

Java's answer where it keeps them in files, too, is that the comparison is under way, and that the export is done.

Source: Java AdminBrokerProcessor.checkRocksdbCqWriteProgress, exportRocksDBConfigToJson.
"""

from __future__ import annotations

import orjson

from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers import CheckRocksdbQueues, ExportRocksdbTables

_NOT_OK = 1
"""Java: CheckRocksdbCqWriteResult.CheckStatus.CHECK_NOT_OK."""
_TABLES = ("topics", "subscriptionGroups", "consumerOffsets")

handlers: Handlers[BrokerService] = Handlers()


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
