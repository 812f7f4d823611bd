"""Brokers: run-time values, settings, producers, and clean-ups.

Source: Java org.apache.rocketmq.tools.command.broker and .producer of 5.3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_each
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, cell
from orbitmq.codes import version_name
from orbitmq.errors import InvalidArgument, OrbitError
from orbitmq.masking import masked_value
from orbitmq.model.route import MASTER_ID, BrokerData
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.groups import decode_producer_table
from orbitmq.wire.headers import CleanExpiredConsumeQueues, CleanUnusedTopics, DeleteExpiredCommitLog, GetAllProducers


async def broker_status(clients: ClusterClients, given: Given) -> Result:
    """Show the run-time values of one broker, or of a cluster's."""
    one = given.text("brokerAddr")
    addresses = [one] if one else [at for data in await cluster_brokers(clients, given) for at in _members(data)]
    lines, rows = [], []

    async def find(address: str, _address: str) -> dict[str, str]:
        return await clients.admin.broker_runtime_info(address)

    found, problems = await ask_each(dict(zip(addresses, addresses, strict=True)), find)
    for address, values in found.items():
        prefix = "" if one else f"{cell(-24, address)} "
        lines += [f"{prefix}{cell(-32, key)}: {value}" for key, value in sorted(values.items())]
        rows.append({"address": address, "values": values})
    return Result(lines, rows, list(problems.values()))


async def get_broker_config(clients: ClusterClients, given: Given) -> Result:
    """Show the settings of one broker, or of a cluster's; secrets are masked unless they are asked for, as Java shows them."""
    one = given.text("brokerAddr")
    titles: list[tuple[str, str]] = []
    if one:
        titles.append((one, f"============{one}============"))
    else:
        for data in await cluster_brokers(clients, given):
            master = data.addresses.get(MASTER_ID)
            if master is not None:
                titles.append((master, f"============Master: {master}============"))
            titles += [
                (at, f"============My Master: {master or 'NO_MASTER'}=====Slave: {at}============")
                for at in _members(data)
                if at != master
            ]
    lines, rows = [], []

    async def find(address: str, _title: str) -> dict[str, str]:
        return await clients.admin.broker_settings(address, with_secrets="showSecrets" in given)

    found, problems = await ask_each(dict(titles), find, needs_one=True)
    for address, title in titles:
        if address not in found:
            continue
        settings = found[address]
        lines += [title, *(f"{cell(-50, key)}=  {value}" for key, value in sorted(settings.items())), ""]
        rows.append({"address": address, "settings": settings})
    return Result(lines, rows, list(problems.values()))


async def update_broker_config(clients: ClusterClients, given: Given) -> Result:
    """Change a setting of one broker, or of a cluster's masters (with -a of its slaves, too)."""
    key, value, one = given.text("key"), given.text("value"), given.text("brokerAddr")
    addresses = [one]
    if not one:
        has_slaves = "updateAllBroker" in given
        brokers = await cluster_brokers(clients, given)
        addresses = [
            at for data in brokers for at in _members(data) if has_slaves or data.addresses.get(MASTER_ID) == at
        ]
    lines, rows, problems, notices = [], [], [], []
    for address in addresses:
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
    address = given.text("broker")
    answer = await clients.pool.request(address, GetAllProducers(), timeout_ms=clients.timeout_ms)
    lines, rows = [], []
    for group, infos in decode_producer_table(expect(answer, address).body).items():
        if not infos:
            lines.append(f"producer group ({group}) instances are empty")
        for info in infos:
            seen = datetime.fromtimestamp(info.seen_at_ms / 1000, UTC).astimezone()
            version = version_name(info.version)
            text = (
                f"clientId={info.client_id},remoteIP=/{info.address}, language={info.language}, "
                f"version={info.version}, lastUpdateTimestamp={info.seen_at_ms}"
            )
            lines.append(f"producer group ({group}) instance : {text}")
            rows.append({"group": group, **info._asdict(), "version_name": version, "seen": seen.isoformat()})
    return Result(lines, rows)


async def clean_unused_topic(clients: ClusterClients, given: Given) -> Result:
    """Delete the consume queues of topics that brokers do not have any more."""
    return await _clean(clients, given, CleanUnusedTopics())


async def clean_expired_cq(clients: ClusterClients, given: Given) -> Result:
    """Delete consume queues of messages that are gone."""
    return await _clean(clients, given, CleanExpiredConsumeQueues())


async def delete_expired_commit_log(clients: ClusterClients, given: Given) -> Result:
    """Delete expired files of the CommitLog now, whatever the hour."""
    return await _clean(clients, given, DeleteExpiredCommitLog())


async def _clean(clients: ClusterClients, given: Given, header: object) -> Result:
    one, cluster = given.text("brokerAddr"), given.text("cluster") or None
    addresses = [one] if one else list((await clients.admin.masters(cluster=cluster)).values())
    for address in addresses:
        expect(await clients.pool.request(address, header, timeout_ms=clients.timeout_ms), address)
    return Result(["success"], [{"address": address} for address in addresses])


async def cluster_brokers(clients: ClusterClients, given: Given) -> list[BrokerData]:
    """Return the brokers of the cluster that is named, by their names.

    Raises:
        InvalidArgument: none is called so.
    """
    info = await clients.admin.cluster_info()
    cluster = given.text("clusterName")
    if cluster not in info.clusters:
        raise InvalidArgument(
            "--clusterName", cluster, f"one of {', '.join(sorted(info.clusters)) or 'none: there is no broker'}"
        )
    return [info.brokers[name] for name in sorted(info.clusters[cluster]) if name in info.brokers]


def _members(data: BrokerData) -> list[str]:
    addresses: Mapping[int, str] = data.addresses
    return [addresses[broker_id] for broker_id in sorted(addresses)]
