"""The normal form of an answer: what two brokers must agree on, without what cannot be the same on both.

Masked are: addresses and ports, offsets in the log and the message ids made of them, moments, versions of tables, and
whatever belongs to other scenarios.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from compat.broker.popping import GROUP
from compat.broker.sides import Closed, Memory, Outcome
from compat.broker.steps import BINARY_CODE_MAX, PREFIX_MARK, Step
from orbitmq.codes import RequestCode
from orbitmq.errors import OrbitError
from orbitmq.model.message import SysFlag
from orbitmq.wire import fastjson
from orbitmq.wire.command import Command
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.recall_handle import parse_recall_handle
from orbitmq.wire.messages.record import Record, iter_records

ADDRESS = re.compile(r"(127\.0\.0\.1|\[?::1\]?)(:\d+)?")
MESSAGE_ID = re.compile(r"[0-9A-F]{32}")
MOMENTS = {
    "lastUpdateTimestamp",
    "lastTimestamp",
    "timestamp",
    "storeTimestamp",
    "lastUpdateTime",
    "physicOffset",
    "physicSize",
}
"""Compared by their sign alone."""
NOT_KEPT = {"pullOffset", "topicPutTps", "consumeTps"}
"""Ours answers with the committed offset, and with 0."""
PLACES = {
    "ORIGIN_MESSAGE_ID",
    "DLQ_ORIGIN_MESSAGE_ID",
    "PUSH_REPLY_TIME",
    "ARRIVE_TIME",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "TIMER_OUT_MS",
    "TIMER_DELIVER_MS",
    "TIMER_ENQUEUE_MS",
}
UNORDERED = {
    "topicList",
    "groupList",
    "consumerIdList",
    "lockOKMQSet",
    "tagsSet",
    "codeSet",
    "connectionSet",
    "messageQueueAssignments",
}
RUNTIME_NAMES = {
    "bootTimestamp", "brokerVersion", "brokerVersionDesc", "commitLogDirCapacity", "commitLogDiskRatio", "commitLogMaxOffset",
    "commitLogMinOffset", "consumeQueueDiskRatio", "dispatchBehindBytes", "earliestMessageTimeStamp", "getFoundTps",
    "getMissTps", "getTotalTps", "getTransferredTps", "msgGetTotalTodayMorning", "msgGetTotalTodayNow",
    "msgGetTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow", "msgPutTotalYesterdayMorning",
    "pageCacheLockTimeMills", "pullThreadPoolQueueCapacity", "pullThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize", "putMessageAverageSize", "putMessageSizeTotal", "putMessageTimesTotal", "putTps",
    "remainHowManyDataToFlush", "runtime", "sendThreadPoolQueueCapacity", "sendThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueSize", "startAcceptSendRequestTimeStamp", "timerCongestNum", "timerDequeueTps", "timerEnqueueTps",
    "timerOffsetBehind", "timerReadBehind",
}  # fmt: skip
"""What mqadmin and the dashboard take out of 28."""
SETTINGS = (
    "brokerName",
    "brokerClusterName",
    "brokerId",
    "autoCreateTopicEnable",
    "defaultTopicQueueNums",
    "brokerPermission",
)
"""Of 26: what the two brokers have in common."""
TABLES = {
    RequestCode.GET_ALL_TOPIC_CONFIG: "topicConfigTable",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroupTable",
    RequestCode.GET_ALL_CONSUMER_OFFSET: "offsetTable",
}
PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
SENDS = (10, 310, 320, 324, 325)
NOT_READ = {"topicSysFlag", "groupSysFlag", "forbiddenType"}
WAITS = re.compile("DELAY\x01|TRAN_MSG\x01true|TIMER_")
WAITING_TOPICS = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC")
"""What waits for its time has places among the messages of all scenarios there."""

POLLING_FULL, POLLING_TIMEOUT = 209, 210
"""With these two codes a pop says that there is nothing."""
NOT_EQUAL = {"popTime", "reviveQid", "indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
"""Moments and places, which are numbers on both sides."""
RECORDS = (*PULLS, RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.QUERY_MESSAGE, RequestCode.POP_MESSAGE)

REMARK = "remark"
"""For people to read: only whether there is one is compared."""
Normal = dict[str, Any]
Special = Callable[[dict[str, Any], Memory], dict[str, Any]]


def normalise(step: Step, outcome: Outcome, memory: Memory, special: Mapping[int, Special] | None = None) -> Normal:
    """Return what has to be equal.

    Args:
        special: by code, what is compared of a body in place of all that is in it.
    """
    if isinstance(outcome, Closed):
        return {"closed": True}
    if outcome is None:
        return {}
    fields = {name: _field(name, text, memory) for name, text in (outcome.ext_fields or {}).items() if text}
    if step.code in SENDS and outcome.code:  # Java adds these to refusals, too; clients read them in successes
        fields.pop("MSG_REGION", None)
        fields.pop("TRACE_ON", None)
    if step.code in SENDS and WAITS.search(step.fields.get("i", step.fields.get("properties", ""))):
        fields.pop("queueOffset", None)  # where it waits, among messages of all scenarios
    if step.code in PULLS:  # no client reads them
        fields = {name: text for name, text in fields.items() if name not in NOT_READ}
    if step.code > BINARY_CODE_MAX and outcome.code not in (0, POLLING_FULL, POLLING_TIMEOUT):
        fields = {}  # of a refused pop or ack Java answers zeros, too
    normal: Normal = {"code": outcome.code, "fields": fields, "has a remark": bool(outcome.remark)}
    if outcome.code == 0 or step.code in PULLS:  # it is not read: Java leaves all kinds of text there
        del normal["has a remark"]
    normal[REMARK] = outcome.remark
    if outcome.body:
        normal["body"] = _body(step, outcome, memory, SPECIAL if special is None else special)
    return normal


def normalise_push(command: Command, memory: Memory) -> Normal:
    """Return what has to be equal of a request that the broker sent."""
    fields = {name: _field(name, text, memory) for name, text in (command.ext_fields or {}).items() if text}
    return {"code": command.code, "fields": fields, "body": command.body.decode("latin-1")}


def _field(name: str, text: str, memory: Memory) -> Any:
    if name == "properties":
        return _properties(text.encode(), memory)
    if name == "version":
        return re.sub(r"\d+", "n", text)
    if name in ("timestamp", "storeTimestamp"):
        return "a time" if int(text) > 0 else text
    if name in NOT_EQUAL:
        return "" if text.isdecimal() else text
    if name == "recallHandle":
        return _recall_handle(text, memory)
    if name in ("bornHost", "storeHost"):
        return ADDRESS.sub("host", text)
    return masked(text, memory)


def _recall_handle(text: str, memory: Memory) -> Any:
    """Return what a handle says, without the moment, which a delay counts from the send."""
    try:
        handle = parse_recall_handle(text)
    except OrbitError:
        return text
    return [masked(part, memory) for part in handle._replace(time="")]


def masked(text: str, memory: Memory) -> str:
    text = ADDRESS.sub("host", text)
    text = MESSAGE_ID.sub("message id", text)
    return text.replace(memory.prefix, PREFIX_MARK)


def _properties(encoded: bytes, memory: Memory) -> Any:
    try:
        properties = parse_properties(encoded)
    except UnicodeDecodeError:
        return encoded.replace(memory.prefix.encode(), b"\xc2\xa7")
    return {name: "place" if name in PLACES else masked(value, memory) for name, value in properties.items()}


def _body(step: Step, answer: Command, memory: Memory, special: Mapping[int, Special]) -> Any:
    if step.code in RECORDS and answer.code == 0:
        return _records(answer.body, memory)
    if step.code == RequestCode.GET_BROKER_CONFIG and answer.code == 0:
        lines = (line.partition("=") for line in answer.body.decode().splitlines())
        return {key: value for key, _, value in lines if key in SETTINGS}
    try:
        value = fastjson.loads(answer.body)
    except (OrbitError, ValueError):
        return masked(answer.body.decode("utf-8", "backslashreplace"), memory)
    if isinstance(value, dict) and (kind := special.get(step.code)) is not None:
        value = kind(value, memory)
    return _json(value, memory)


def _records(body: bytes, memory: Memory) -> Any:
    try:
        return [_record(record, memory) for record in iter_records(body)]
    except OrbitError as error:
        return f"no records: {error}"


def _record(record: Record, memory: Memory) -> Normal:
    properties = _properties(record.properties, memory)
    if isinstance(properties, dict) and (properties.get("MSG_TYPE") == "reply" or "UNIQ_KEY" not in properties):
        properties.pop("CLUSTER", None)  # Java does not add it to replies
    return {
        "queue": record.queue_id,
        "flag": record.flag,
        "queue offset": "" if record.topic in WAITING_TOPICS else record.queue_offset,
        "sys flag": record.sys_flag & ~SysFlag.MULTI_TAGS,  # Java adds it in topics of that filter type
        "born at": record.born_at_ms,
        "born host": record.born_host.ip,
        "store host": record.store_host.ip,
        "reconsume times": record.reconsume_times,
        "prepared": bool(record.prepared_transaction_offset),
        "body crc": record.body_crc,
        "body": bytes(record.body),
        "topic": masked(record.topic, memory),
        "properties": properties,
    }


def _json(value: Any, memory: Memory, name: str = "") -> Any:
    if isinstance(value, dict):
        return {_key(key, memory): _json(item, memory, str(key)) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        items = [_json(item, memory) for item in value]
        return sorted(items, key=_sorting) if name in UNORDERED else items
    if name in NOT_KEPT:
        return 0
    if name in MOMENTS and isinstance(value, int | float) and not isinstance(value, bool):
        return (value > 0) - (value < 0)
    return masked(value, memory) if isinstance(value, str) else value


def _key(key: Any, memory: Memory) -> str:
    """Return a key as text: Java writes objects there, too."""
    return masked(key if isinstance(key, str) else json.dumps(key, sort_keys=True, default=str), memory)


def _sorting(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _is_own(key: str, memory: Memory) -> bool:
    if key.endswith(GROUP.replace(PREFIX_MARK, memory.prefix)):
        return False  # its offsets: Java writes them some time after the pops
    return memory.prefix in key and not key.endswith("@broadcast")  # what Java remembers of broadcasting groups


def _own(value: dict[str, Any], memory: Memory, name: str) -> dict[str, Any]:
    """Leave in a table only what belongs to this scenario."""
    table = value.get(name, {})
    return {name: {key: item for key, item in table.items() if _is_own(str(key), memory)}}


def _names(value: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Of what a broker says about its run only the names can be compared, and only those that tools read."""
    return {"table": {name: "" for name in value.get("table", {}) if name in RUNTIME_NAMES}}


SPECIAL: dict[int, Special] = {
    code: (lambda value, memory, name=name: _own(value, memory, name)) for code, name in TABLES.items()
} | {RequestCode.GET_BROKER_RUNTIME_INFO: _names}
