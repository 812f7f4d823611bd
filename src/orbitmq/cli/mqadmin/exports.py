"""Statistics of all topics, lists of topics or groups, exports to files, and data that are no longer in memory.

Exports go to the directory of -f; without it to `rocketmq/export` in the one for temporary files. `updateTopicList` and
`updateSubGroupList` end with 1 where the file is not there or lists nothing, where Java ends with 0.

Source: Java org.apache.rocketmq.tools.command.stats and .export, UpdateTopicListSubCommand, UpdateSubGroupListSubCommand,
GetColdDataFlowCtrInfoSubCommand and its neighbours of 5.3.3.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_about, notices_of
from orbitmq.admin.group_client import GroupAdmin
from orbitmq.cli.mqadmin.consumers import find_progress
from orbitmq.cli.mqadmin.files import write_file
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, listed, seconds_text, table
from orbitmq.cli.mqadmin.targets import ask, cluster_brokers, given_brokers, given_masters, tell_masters
from orbitmq.errors import InvalidArgument, OrbitError
from orbitmq.model.route import MASTER_ID
from orbitmq.model.topic import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, is_reserved_topic
from orbitmq.wire.bodies.document import parse_body
from orbitmq.wire.bodies.groups import group_document
from orbitmq.wire.bodies.stats import BrokerStatsData
from orbitmq.wire.headers import (
    CreateTopics,
    GetAllTopicConfig,
    GetColdDataControl,
    RemoveColdDataControl,
    SetCommitLogReadMode,
    UpdateColdDataControl,
    UpdateSubscriptionGroups,
)

_EXPORTED_SETTINGS = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "filterServerNums", "flushDiskType",
    "maxMessageSize", "messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn", "traceTopicEnable", "useTLS",
    "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
)  # fmt: skip
_READ_MODES = ("0", "1")


async def stats_all(clients: ClusterClients, given: Given) -> Result:
    """Show of every topic and group the messages per second and per day; with -a of those that have some."""
    wanted, is_active = given.text("topic"), "activeTopic" in given
    topics = [
        name
        for name in await clients.admin.topic_list()
        if not name.startswith((RETRY_PREFIX, DLQ_PREFIX)) and wanted in ("", name)
    ]
    admin, silent = await clients.admin.groups_that_answer()

    async def look(topic: str) -> list[dict[str, Any]]:
        try:
            return await _topic_stats(clients, admin, topic, silent)
        except OrbitError:
            return []

    found = [row for rows in await ask_about(topics, look) for row in rows]
    rows = [row for row in found if not is_active or row["in_day"] > 0 or row["out_day"] > 0]
    cells = (
        (
            row["topic"],
            row["group"] or "",
            row["behind"],
            f"{row['in_rate']:.2f}",
            "" if row["group"] is None else f"{row['out_rate']:.2f}",
            row["in_day"],
            "NO_CONSUMER" if row["group"] is None else row["out_day"],
        )
        for row in rows
    )
    titles = "#Topic|#Consumer Group|#Accumulation|#InTPS|#OutTPS|#InMsg24Hour|#OutMsg24Hour"
    lines = table("%-64.64s  %-64.64s %12s %11s %11s %14s %14s", titles, cells)
    return Result(lines, rows, notices_of(silent))


async def _topic_stats(
    clients: ClusterClients, admin: GroupAdmin, topic: str, silent: Mapping[str, str]
) -> list[dict[str, Any]]:
    route = await clients.admin.topic_route(topic)
    masters = [
        data.addresses[MASTER_ID]
        for data in route.brokers
        if MASTER_ID in data.addresses and data.broker_name not in silent
    ]

    async def total(name: str, key: str) -> tuple[float, int]:
        rate, count = 0.0, 0
        for address in masters:
            try:
                told = await clients.admin.broker_stats(address, name, key)
            except OrbitError:
                continue  # it has counted nothing
            rate, count = rate + told.minute.rate, count + _day_sum(told)
        return rate, count

    in_rate, in_day = await total("TOPIC_PUT_NUMS", topic)
    common = {"topic": topic, "in_rate": in_rate, "in_day": in_day}
    rows = []
    for group in await admin.of_topic(topic):
        out_rate, out_day = await total("GROUP_GET_NUMS", f"{topic}@{group}")
        behind = 0
        try:
            places = (await find_progress(clients, group, topic, silent=silent)).queues.values()
            behind = max(0, sum(place.behind for place in places))
        except OrbitError:
            pass  # it has no offsets
        rows.append({**common, "group": group, "behind": behind, "out_rate": out_rate, "out_day": out_day})
    return rows or [{**common, "group": None, "behind": 0, "out_rate": 0.0, "out_day": 0}]


def _day_sum(told: BrokerStatsData) -> int:
    return told.day.sum or told.hour.sum or told.minute.sum


async def _update_list(header: object, key: str, what: str, clients: ClusterClients, given: Given) -> Result:
    """Create or change what a JSON file lists."""
    configs = _read_list(given.text("filename"))
    addresses = await tell_masters(clients, given, header, json.dumps({key: configs}).encode())
    text = what.removeprefix("subscription ") if "brokerAddr" in given else what  # Java says less of one broker
    rows = [{"address": address, "count": len(configs)} for address in addresses]
    return listed(f"submit batch of {text} to {{address}} success, please check the result later.", rows)


update_topic_list = partial(_update_list, CreateTopics(), "topicConfigList", "topic config")
update_sub_group_list = partial(
    _update_list, UpdateSubscriptionGroups(), "groupConfigList", "subscription group config"
)


def _read_list(name: str) -> list[Any]:
    try:
        found = json.loads(Path(name).read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidArgument("--filename", name, f"a JSON file ({error})") from None
    if not isinstance(found, list) or not found:
        raise InvalidArgument("--filename", name, "a JSON list that is not empty")
    return found


def _export(given: Given, name: str, document: Mapping[str, Any]) -> Result:
    directory = given.text("filePath") or str(Path(tempfile.gettempdir(), "rocketmq", "export"))
    path = f"{directory}/{name}"
    write_file(Path(path), json.dumps(document, indent=2, default=str).encode())
    return Result([f"export {path} success"], {"path": path})


async def _topics(clients: ClusterClients, address: str, *, is_special: bool) -> dict[str, dict[str, Any]]:
    """Return the settings of the topics that users made on a broker, with -s of groups' own ones as well."""
    document = parse_body("topic table", (await ask(clients, address, GetAllTopicConfig())).body, dict)
    own = (RETRY_PREFIX, DLQ_PREFIX)
    return {
        name: config
        for name, config in (document.get("topicConfigTable") or {}).items()
        if not is_reserved_topic(name) and (is_special or not name.startswith(own))
    }


async def _groups(clients: ClusterClients, address: str) -> dict[str, dict[str, Any]]:
    configs = await (await clients.admin.broker(address)).group_configs()
    return {name: group_document(config) for name, config in configs.items()}


async def export_metadata(clients: ClusterClients, given: Given) -> Result:
    """Write the settings of topics and groups of a broker or a cluster to a JSON file."""
    has_topics, has_groups = "topic" in given, "subscriptionGroup" in given
    if "brokerAddr" in given and not has_topics and not has_groups:
        raise InvalidArgument("exportMetadata", "--brokerAddr alone", "--topic or --subscriptionGroup as well")
    topics: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    for address in (await given_masters(clients, given)).values():
        for name, config in (await _topics(clients, address, is_special="specialTopic" in given)).items():
            before = topics.get(name, {})
            for key in ("readQueueNums", "writeQueueNums"):
                config[key] = config.get(key, 0) + before.get(key, 0)
            topics[name] = config
        for name, config in (await _groups(clients, address)).items():
            config["retryQueueNums"] += groups.get(name, {}).get("retryQueueNums", 0)
            groups[name] = config
    at = {"exportTime": time.time_ns() // 1_000_000}
    if has_topics:
        return _export(given, "topic.json", {"topicConfigTable": topics, **at})
    if has_groups:
        return _export(given, "subscriptionGroup.json", {"subscriptionGroupTable": groups, **at})
    return _export(given, "metadata.json", {"topicConfigTable": topics, "subscriptionGroupTable": groups, **at})


async def export_configs(clients: ClusterClients, given: Given) -> Result:
    """Write the most important settings of a cluster's masters, and its size, to a JSON file."""
    from orbitmq.address import parse_name_servers

    configs: dict[str, Any] = {}
    slave_count = 0
    for data in await cluster_brokers(clients, given):
        if MASTER_ID in data.addresses:
            settings = await clients.admin.broker_settings(data.addresses[MASTER_ID])
            configs[data.broker_name] = {key: settings[key] for key in _EXPORTED_SETTINGS if key in settings}
            slave_count += len(data.addresses) - 1
    scale = {"namesrvSize": len(parse_name_servers(clients.name_servers)), "masterBrokerSize": len(configs)}
    return _export(
        given, "configs.json", {"brokerConfigs": configs, "clusterScale": scale | {"slaveBrokerSize": slave_count}}
    )


async def export_metrics(clients: ClusterClients, given: Given) -> Result:
    """Write rates, counts and sizes of a cluster's masters to a JSON file."""
    report: dict[str, Any] = {}
    rates = dict.fromkeys(("totalNormalInTps", "totalNormalOutTps", "totalTransInTps", "totalScheduleInTps"), 0.0)
    counts = dict.fromkeys(("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum"), 0)
    for data in await cluster_brokers(clients, given):
        if MASTER_ID not in data.addresses:
            continue
        address = data.addresses[MASTER_ID]
        values = await clients.admin.broker_runtime_info(address)
        settings = await clients.admin.broker_settings(address)
        groups = await _groups(clients, address)
        tps, day = await _rates(clients, address, values)
        for key, rate in tps.items():
            rates[f"total{key[0].upper()}{key[1:]}"] += rate
        for key, count in day.items():
            counts[key] += count
        quota = {
            "diskRatio": {key: values.get(key) for key in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
            "tps": tps,
            "oneDayNum": day,
            "messageAverageSize": values.get("putMessageAverageSize"),
            "topicSize": len(await _topics(clients, address, is_special=False)),
            "groupSize": len(groups),
        }
        env = {"cpuNum": settings.get("clientCallbackExecutorThreads"), "totalMemKBytes": values.get("totalMemKBytes")}
        version = {"rocketmqVersion": values.get("brokerVersionDesc"), "clientInfo": await _clients(clients, groups)}
        report[data.broker_name] = {"runtimeEnv": env, "runtimeQuota": quota, "runtimeVersion": version}
    total = {"totalTps": rates, "totalOneDayNum": counts}
    return _export(given, "metrics.json", {"evaluateReport": report, "totalData": total})


async def _rates(
    clients: ClusterClients, address: str, values: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, int]]:
    """Return a broker's messages per second now, and of yesterday."""

    def first(key: str) -> float:
        words = values.get(key, "").split()
        return float(words[0]) if words else 0.0

    tps = {"normalInTps": first("putTps"), "normalOutTps": first("getTransferredTps")}
    day = {}
    for way, name in (("Put", "In"), ("Get", "Out")):
        begin, end = (first(f"msg{way}Total{when}Morning") for when in ("Yesterday", "Today"))
        day[f"normalOneDay{name}Num"] = int(end - begin)
    for name, topic in (("trans", HALF_TOPIC), ("schedule", SCHEDULE_TOPIC)):
        rate, count = 0.0, 0
        try:
            told = await clients.admin.broker_stats(address, "TOPIC_PUT_NUMS", topic)
            rate, count = told.minute.rate, _day_sum(told)
        except OrbitError:
            pass  # it has counted nothing
        tps[f"{name}InTps"], day[f"{name}OneDayInNum"] = rate, count
    return tps, day


async def _clients(clients: ClusterClients, groups: Mapping[str, Any]) -> list[str]:
    """Return languages and releases of the consumers that are online."""
    from orbitmq.cli.mqadmin.consumers import find_connections
    from orbitmq.codes import version_name

    found: set[str] = set()
    for group in groups:
        try:
            connections, _ = await find_connections(clients, group)
        except OrbitError:
            continue  # none is online
        found.update(f"{one.language}%{version_name(one.version)}" for one in connections)
    return sorted(found)


async def get_cold_data_flow_ctr_info(clients: ClusterClients, given: Given) -> Result:
    """Show the limits on reading what is no longer in memory, and what groups have read of it."""
    lines: list[str] = []
    rows = []
    for address, title in (await given_brokers(clients, given)).items():
        body = (await ask(clients, address, GetColdDataControl())).body
        document = parse_body("cold data", body, dict) if body else {}
        for value in (document.get("runtimeTable") or {}).values():
            for key in ("lastColdReadTime", "createTime"):
                at_ms = value.pop(f"{key}Mills", 0)
                value[f"{key}Format"] = seconds_text(at_ms)
        text = (
            json.dumps(document, indent=2, separators=(",", ":")).splitlines()
            if document
            else [f"Broker[{address}] has no cold ctr table !"]
        )
        lines += [f" ============{title}============", *text]
        rows.append({"address": address, **document})
    return Result(lines, rows)


async def update_cold_data_flow_ctr_group_config(clients: ClusterClients, given: Given) -> Result:
    """Limit how much a group reads per second of what is no longer in memory."""
    group = given.text("consumerGroup")
    body = f"{group}={given.number('threshold', 0)}\n".encode()
    return await _control(clients, given, UpdateColdDataControl(), body, "updateColdDataFlowCtrGroupConfig success")


async def remove_cold_data_flow_ctr_group_config(clients: ClusterClients, given: Given) -> Result:
    """Take a group's limit away."""
    body = given.text("consumerGroup").encode()
    return await _control(clients, given, RemoveColdDataControl(), body, "remove broker cold read threshold success")


async def _control(clients: ClusterClients, given: Given, header: object, body: bytes, text: str) -> Result:
    addresses = await tell_masters(clients, given, header, body)
    rows = [{"address": address, "group": given.text("consumerGroup")} for address in addresses]
    return listed(f"{text}, {{address}}", rows)


async def set_commit_log_read_ahead_mode(clients: ClusterClients, given: Given) -> Result:
    """Let the system read ahead in the CommitLog (0), or not (1)."""
    mode = given.text("commitLogReadAheadMode")
    if mode not in _READ_MODES:
        raise InvalidArgument("--commitLogReadAheadMode", mode, "0 (as the system likes) or 1 (not at all)")
    lines: list[str] = []
    rows = []
    for address, title in (await given_brokers(clients, given)).items():
        answer = await ask(clients, address, SetCommitLogReadMode(mode=int(mode)))
        lines += [f" ============{title}============", f"commitLog set readAhead mode rstStr{answer.remark}"]
        rows.append({"address": address, "mode": mode, "remark": answer.remark})
    return Result(lines, rows)
