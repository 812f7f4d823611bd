"""Brokers: run-time values, settings, producers, and clean-ups.

Source: Java org.apache.rocketmq.tools.command.broker and .producer of 5.3.3.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_each
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, settings_lines
from orbitmq.cli.mqadmin.targets import ask, given_brokers
from orbitmq.codes import version_name
from orbitmq.errors import OrbitError
from orbitmq.masking import masked_value
from orbitmq.wire.bodies.groups import decode_producer_table
from orbitmq.wire.headers import CleanExpiredConsumeQueues, CleanUnusedTopics, DeleteExpiredCommitLog, GetAllProducers


async def broker_status(clients: ClusterClients, given: Given) -> Result:
    """Show the run-time values of one broker, or of a cluster's."""
    addresses = await given_brokers(clients, given)
    found, problems = await ask_each(
        {address: address for address in addresses}, lambda _name, at: clients.admin.broker_runtime_info(at)
    )
    lines = []
    for address, values in found.items():
        prefix = "" if "brokerAddr" in given else f"{address:<24} "
        lines += [f"{prefix}{key:<32}: {value}" for key, value in sorted(values.items())]
    rows = [{"address": address, "values": values} for address, values in found.items()]
    return Result(lines, rows, list(problems.values()))


async def get_broker_config(clients: ClusterClients, given: Given) -> Result:
    """Show the settings of one broker, or of a cluster's; secrets are masked unless they are asked for, as Java shows them."""
    titles = await given_brokers(clients, given)

    async def find(address: str, _title: str) -> dict[str, str]:
        return await clients.admin.broker_settings(address, with_secrets="showSecrets" in given)

    found, problems = await ask_each(titles, find, needs_one=True)
    lines = []
    for address, settings in found.items():
        lines += [*settings_lines(titles[address], settings), ""]
    rows = [{"address": address, "settings": settings} for address, settings in found.items()]
    return Result(lines, rows, list(problems.values()))


async def update_broker_config(clients: ClusterClients, given: Given) -> Result:
    """Change a setting of one broker, or of a cluster's masters (with -a of its slaves, too)."""
    key, value = given.text("key"), given.text("value")
    lines, rows, problems, notices = [], [], [], []
    for address in await given_brokers(clients, given, with_slaves="updateAllBroker" in given):
        try:
            remark = await clients.admin.change_broker_settings(address, {key: value})
        except OrbitError as error:
            problems.append(str(error))
            continue
        lines.append(f"update broker config success, {address}")
        rows.append({"address": address, "key": key, "value": masked_value(key, value)})
        if remark:
            notices.append(f"{address}: {remark}")
    return Result(lines, rows, problems, notices)


async def producer(clients: ClusterClients, given: Given) -> Result:
    """Show the producers that are connected to a broker."""
    answer = await ask(clients, given.text("broker"), GetAllProducers())
    lines, rows = [], []
    for group, infos in decode_producer_table(answer.body).items():
        if not infos:
            lines.append(f"producer group ({group}) instances are empty")
        for info in infos:
            seen = datetime.fromtimestamp(info.seen_at_ms / 1000, UTC).astimezone()
            lines.append(
                f"producer group ({group}) instance : clientId={info.client_id},remoteIP=/{info.address}, "
                f"language={info.language}, version={info.version}, lastUpdateTimestamp={info.seen_at_ms}"
            )
            version = version_name(info.version)
            rows.append({"group": group, **info._asdict(), "version_name": version, "seen": seen.isoformat()})
    return Result(lines, rows)


async def _clean(header: object, clients: ClusterClients, given: Given) -> Result:
    one, cluster = given.text("brokerAddr"), given.text("cluster") or None
    addresses = [one] if one else list((await clients.admin.masters(cluster=cluster)).values())
    for address in addresses:
        await ask(clients, address, header)
    return Result(["success"], [{"address": address} for address in addresses])


clean_unused_topic = partial(_clean, CleanUnusedTopics())
clean_expired_cq = partial(_clean, CleanExpiredConsumeQueues())
delete_expired_commit_log = partial(_clean, DeleteExpiredCommitLog())
