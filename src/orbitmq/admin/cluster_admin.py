"""The part of an administrator's client that knows a cluster's brokers and asks servers: what each command of a shell loads."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from orbitmq.client.routing.nameserver_client import NameServerClient
from orbitmq.client.session.owning_loop import OwningLoop
from orbitmq.client.session.validation import INTERVAL_MS, checked
from orbitmq.errors import ClientError, InvalidArgument, RouteNotFound
from orbitmq.model.route import MASTER_ID, ClusterInfo
from orbitmq.model.topic import topics_named_after
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.document import decode_kv_table
from orbitmq.wire.bodies.route import decode_cluster_info
from orbitmq.wire.command import Command
from orbitmq.wire.headers.admin import GetBrokerRuntimeInfo
from orbitmq.wire.headers.nameserver import GetClusterInfo, GetHealth
from orbitmq.wire.signature import Credentials

_NO_MASTER = "it has no master now"


@checked(init={"timeout_ms": INTERVAL_MS})
class ClusterAdmin:
    """Typed questions about the brokers of one cluster.

    Args:
        name_servers: `"host:port;host:port"` or a list of addresses.
        timeout_ms: for each request.
        credentials: sign every request, for NameServers that ask for it.
        tls: connect with TLS, as `orbitmq.net.security.tls.client_context` makes it.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str],
        *,
        timeout_ms: int = 3000,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._owning_loop = OwningLoop(type(self).__name__)
        self._timeout_ms = timeout_ms
        self._pool = ConnectionPool(name="admin", credentials=credentials, tls=tls)
        self._name_servers = NameServerClient(name_servers, self._pool, timeout_ms=timeout_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._name_servers.close()
        await self._pool.close()
        self._owning_loop.leave()

    async def cluster_info(self) -> ClusterInfo:
        """Return all brokers of all clusters that the NameServer knows."""
        return decode_cluster_info((await self._ask(GetClusterInfo())).body)

    async def own_topics(self) -> frozenset[str]:
        """Return the topics that brokers have named after themselves and their clusters; not each of them need be there."""
        info = await self.cluster_info()
        return topics_named_after(info.clusters, info.brokers)

    async def masters(self, *, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
        """Return the addresses of all masters, of one cluster's, or of one broker name's, by their names.

        Raises:
            InvalidArgument: no cluster, or no broker, is called so.
            RouteNotFound: there is no master.
        """
        info = await self.cluster_info()
        try:
            return masters_in(info, cluster, broker)
        except (InvalidArgument, RouteNotFound) as error:
            for name, why in (await self.missing_masters()).items():
                if broker in (None, name):
                    error.add_note(f"{name}: {why}")
            raise

    async def missing_masters(self) -> dict[str, str]:
        """Return the names of brokers that have no master now, and why, sorted: they have slaves alone, or were lost within a day.

        Only orbitmq NameServers tell of lost ones.
        """
        from orbitmq.admin.monitoring import health_in, lost_masters_in

        brokers = (await self.cluster_info()).brokers
        found = {name: _NO_MASTER for name, data in brokers.items() if MASTER_ID not in data.addresses}
        with suppress(ClientError):
            health = health_in(await self._ask(GetHealth()), ", ".join(self._name_servers.configured))
            lost = lost_masters_in(health["alerts"])
            found |= {name: why for name, why in lost.items() if name not in brokers or name in found}
        return dict(sorted(found.items()))

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        """Return a broker's run-time values, by Java's names."""
        return decode_kv_table((await self._request(address, GetBrokerRuntimeInfo())).body)

    def _check_loop(self) -> None:
        self._owning_loop.check()
        self._owning_loop.settle()  # it opens its connections with the first question, and is none's when they are closed

    async def _ask(self, header: object) -> Command:
        return expect(await self._name_servers.ask(header), ", ".join(self._name_servers.configured))

    async def _request(self, address: str, header: object, body: bytes = b"") -> Command:
        return expect(await self._pool.request(address, header, body, timeout_ms=self._timeout_ms), address)


def masters_in(info: ClusterInfo, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
    """Return the addresses of all masters, of one cluster's, or of one broker name's, by their names.

    Raises: as `ClusterAdmin.masters`.
    """
    if cluster is not None and cluster not in info.clusters:
        raise InvalidArgument("cluster", cluster, _one_of(info.clusters))
    if broker is not None and broker not in info.brokers:
        raise InvalidArgument("broker", broker, _one_of(info.brokers))
    names = info.brokers if cluster is None else info.clusters[cluster]
    masters = {
        name: info.brokers[name].addresses[MASTER_ID]
        for name in names
        if broker in (None, name) and name in info.brokers and MASTER_ID in info.brokers[name].addresses
    }
    if not masters:
        whose = "" if broker is None else f" of the name {broker}"
        raise RouteNotFound(f"no master broker{whose} is registered with the NameServer")
    return masters


def _one_of(names: Iterable[Any]) -> str:
    return f"one of {', '.join(sorted(names))}" if names else "one that is registered (there is none now)"
