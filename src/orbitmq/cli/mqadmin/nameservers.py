"""NameServers: their settings, key-value configuration, and the write permission of brokers.

Source: Java org.apache.rocketmq.tools.command.namesrv and UpdateOrderConfCommand of 5.3.3.
"""

from __future__ import annotations

from functools import partial

from orbitmq.address import parse_name_servers
from orbitmq.admin import each_master
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.monitoring import set_write_perm
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, settings_lines
from orbitmq.cli.mqadmin.targets import ask, one_setting, parse_settings
from orbitmq.errors import InvalidArgument
from orbitmq.masking import masked_settings, masked_value
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvConfigResponse,
    GetNameServerConfig,
    PutKvConfig,
    UpdateNameServerConfig,
)

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"


async def update_kv_config(clients: ClusterClients, given: Given) -> Result:
    """Set a key of a namespace on every NameServer."""
    namespace, key, value = given.text("namespace"), given.text("key"), given.text("value")
    await change_each(clients, PutKvConfig(namespace=namespace, key=key, value=value))
    row = {"namespace": namespace, "key": key, "value": value}
    return Result(["create or update kv config to namespace success."], row)


async def delete_kv_config(clients: ClusterClients, given: Given) -> Result:
    """Delete a key of a namespace on every NameServer."""
    namespace, key = given.text("namespace"), given.text("key")
    await change_each(clients, DeleteKvConfig(namespace=namespace, key=key))
    return Result(["delete kv config from namespace success."], {"namespace": namespace, "key": key})


async def update_order_conf(clients: ClusterClients, given: Given) -> Result:
    """Show, set or delete the order configuration of a topic: get, put or delete."""
    topic, method, order = given.text("topic"), given.text("method"), given.text("orderConf")
    row = {"topic": topic, "order": order}
    if method == "get":
        answers = await ask_each(clients, GetKvConfig(namespace=ORDER_NAMESPACE, key=topic))
        row["order"] = decode_header(GetKvConfigResponse, next(iter(answers.values())).ext_fields).value or ""
        return Result([f"get orderConf success. topic=[{topic}], orderConf=[{row['order']}] "], row)
    if method == "put":
        if not order:
            raise InvalidArgument("--orderConf", "", "the queues of each broker, as broker-a:4;broker-b:4")
        await change_each(clients, PutKvConfig(namespace=ORDER_NAMESPACE, key=topic, value=order))
        return Result([f"update orderConf success. topic=[{topic}], orderConf=[{order}]"], row)
    if method == "delete":
        await change_each(clients, DeleteKvConfig(namespace=ORDER_NAMESPACE, key=topic))
        return Result([f"delete orderConf success. topic=[{topic}]"], {"topic": topic})
    raise InvalidArgument("--method", method, "get, put or delete")


async def _set_write_perm(word: str, clients: ClusterClients, given: Given) -> Result:
    broker, is_writable = given.text("brokerName"), word == "add"
    servers = _name_servers(clients)
    lines, rows = [], []

    async def tell(_name: str, address: str) -> int:
        return await set_write_perm(
            clients.pool, address, broker, is_writable=is_writable, timeout_ms=clients.timeout_ms
        )

    counts, failed = await each_master.ask_each(servers, tell)
    for address in servers:
        said = f"{word} write perm of broker[{broker}] in name server[{address}]"
        lines.append(f"{said} Failed" if address in failed else f"{said} OK, {counts[address]}")
        if address in counts:
            rows.append({"nameServer": address, "broker": broker, "topics": counts[address]})
    return Result(lines, rows, [failed[address] for address in servers if address in failed])


wipe_write_perm = partial(_set_write_perm, "wipe")
add_write_perm = partial(_set_write_perm, "add")


async def get_namesrv_config(clients: ClusterClients, given: Given) -> Result:
    """Show the settings of every NameServer; secrets are masked unless they are asked for."""
    lines, rows = [], []
    for address, answer in (await ask_each(clients, GetNameServerConfig())).items():
        settings = parse_settings(answer.body)
        if "showSecrets" not in given:
            settings = masked_settings(settings)
        lines += settings_lines(address, settings)
        rows.append({"nameServer": address, "settings": settings})
    return Result(lines, rows)


async def update_namesrv_config(clients: ClusterClients, given: Given) -> Result:
    """Change a setting of every NameServer."""
    await change_each(clients, UpdateNameServerConfig(), one_setting(given))
    key, value = given.text("key"), masked_value(given.text("key"), given.text("value"))
    servers = f"[{', '.join(parse_name_servers(clients.name_servers))}]" if "namesrvAddr" in given else ""
    return Result([f"update name server config success!{servers}", f"{key} : {value}"], {"key": key, "value": value})


async def ask_each(clients: ClusterClients, header: object) -> dict[str, Command]:
    """Ask every NameServer; return their answers.

    Raises:
        ClientError: one refuses, or does not answer.
    """
    return await each_master.ask_all(_name_servers(clients), lambda _name, at: ask(clients, at, header))


async def change_each(clients: ClusterClients, header: object, body: bytes = b"") -> None:
    """Make a change at every NameServer.

    Raises:
        PartlyDone: some have made it, some have not.
        ClientError: none has made it.
    """
    await each_master.change_each(_name_servers(clients), lambda _name, at: ask(clients, at, header, body))


def _name_servers(clients: ClusterClients) -> dict[str, str]:
    return {address: address for address in parse_name_servers(clients.name_servers)}
