"""Which servers a subcommand asks, and asking them."""

from __future__ import annotations

from collections.abc import Collection

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.errors import ClientError, GroupNotFound, InvalidArgument, OrbitError
from orbitmq.model.route import MASTER_ID, BrokerData, TopicRoute
from orbitmq.model.topic import LMQ_PREFIX, RETRY_PREFIX, TIMER_TOPIC
from orbitmq.net.pool import expect
from orbitmq.wire.command import Command


async def ask(
    clients: ClusterClients, address: str, header: object, body: bytes = b"", *, timeout_ms: int | None = None
) -> Command:
    """Return the answer of one server.

    Raises:
        ClientError: it refuses, or does not answer.
    """
    wait_ms = clients.timeout_ms if timeout_ms is None else timeout_ms
    return expect(await clients.pool.request(address, header, body, timeout_ms=wait_ms), address)


async def given_masters(clients: ClusterClients, given: Given) -> dict[str, str]:
    """Return the masters that a change goes to, by name: the one at an address, or a cluster's.

    Raises:
        InvalidArgument: no master is registered at the address.
    """
    address = given.text("brokerAddr")
    if not address:
        return await clients.admin.masters(cluster=given.text("clusterName"))
    found = await clients.admin.masters()
    masters = {name: at for name, at in found.items() if at == address}
    if not masters:
        raise InvalidArgument("brokerAddr", address, f"a master's: {', '.join(sorted(found.values()))}")
    return masters


async def tell_masters(clients: ClusterClients, given: Given, header: object, body: bytes = b"") -> list[str]:
    """Make a change at the masters that it goes to, one after the other; return their addresses."""
    addresses = list((await given_masters(clients, given)).values())
    for address in addresses:
        await ask(clients, address, header, body)
    return addresses


async def cluster_brokers(clients: ClusterClients, given: Given) -> list[BrokerData]:
    """Return the brokers of the cluster that is named, by their names.

    Raises:
        InvalidArgument: none is called so.
    """
    info = await clients.admin.cluster_info()
    cluster = given.text("clusterName")
    if cluster not in info.clusters:
        names = ", ".join(sorted(info.clusters)) or "none: there is no broker"
        raise InvalidArgument("--clusterName", cluster, f"one of {names}")
    return [info.brokers[name] for name in sorted(info.clusters[cluster]) if name in info.brokers]


async def given_brokers(clients: ClusterClients, given: Given, *, with_slaves: bool = True) -> dict[str, str]:
    """Return the addresses of the broker that is named, or of a cluster's, each with its title in Java's words."""
    if "brokerAddr" in given:
        return {given.text("brokerAddr"): given.text("brokerAddr")}
    found = {}
    for data in await cluster_brokers(clients, given):
        master = data.addresses.get(MASTER_ID, "NO_MASTER")
        for broker_id, address in sorted(data.addresses.items()):
            if broker_id == MASTER_ID:
                found[address] = f"Master: {address}"
            elif with_slaves:
                found[address] = f"My Master: {master}=====Slave: {address}"
    return found


def one_setting(given: Given) -> bytes:
    """Return the body of a request that changes the setting --key to --value.

    Raises:
        InvalidArgument: one of them has more than one line.
    """
    key, value = given.text("key"), given.text("value")
    for part in (key, value):
        if not part.isprintable():
            raise InvalidArgument("--value", part, "one line")
    return f"{key}={value}\n".encode()


def parse_attributes(given: Given) -> dict[str, str]:
    """Return the changes of attributes that --attributes describes, as `+message.type=FIFO,-other`."""
    from orbitmq.admin.topics import parse_attribute_change

    return dict(parse_attribute_change(part) for part in given.text("attributes").split(",") if part)


def parse_settings(body: bytes | memoryview) -> dict[str, str]:
    """Return the settings that a server answers."""
    import javaproperties  # it loads an XML parser

    return dict(javaproperties.loads(bytes(body).decode()))


async def group_route(clients: ClusterClients, group: str, topic: str = "", cluster: str = "") -> TopicRoute:
    """Return the route of a group's retries, which all brokers have that know the group; else a topic's.

    Raises:
        ClientError: there is none.
    """
    names = [f"{RETRY_PREFIX}{group}"]
    if topic:
        names += [topic, f"{RETRY_PREFIX}{group}_{topic}"]
    parent = route_topic(topic, cluster)
    if parent != topic:
        names.append(parent)
    for name in names:
        try:
            return await clients.admin.topic_route(name)
        except ClientError:
            continue
    raise GroupNotFound(f"no broker knows the group {group}")


def route_topic(topic: str, cluster: str) -> str:
    """Return the topic whose route counts: a light message queue has its parent's, which --cluster names."""
    return cluster if cluster and (topic.startswith(LMQ_PREFIX) or topic == TIMER_TOPIC) else topic


async def ask_first(
    clients: ClusterClients, route: TopicRoute, header: object, silent: Collection[str] = ()
) -> Command:
    """Return the answer of the first broker of a route that does not refuse.

    Args:
        silent: names of brokers that are not asked.

    Raises:
        ClientError: all of them do; the last one's error.
    """
    error: OrbitError = ClientError("no broker is registered with the NameServer")
    for name, address in route.addresses.items():
        if name in silent:
            continue
        try:
            return await ask(clients, address, header)
        except ClientError as refusal:
            error = refusal
    raise error
