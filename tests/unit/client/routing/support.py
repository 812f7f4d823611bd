"""NameServers in memory, and what a client asks them with."""

from contextlib import asynccontextmanager
from random import Random

from orbitmq.client.routing.nameserver_client import NameServerClient
from orbitmq.client.routing.routes import Routes
from orbitmq.model.route import BrokerData, QueueData, TopicRoute
from orbitmq.net.pool import ConnectionPool
from unit.client.fakes import FakeNameServer


@asynccontextmanager
async def name_servers(count, routes):
    """Run NameServers that know `routes`."""
    servers = [FakeNameServer(routes) for _ in range(count)]
    for server in servers:
        await server.start()
    try:
        yield servers
    finally:
        for server in servers:
            await server.stop()


@asynccontextmanager
async def client_of(*servers, seed=7, timeout_ms=3_000):
    """Open a NameServerClient of servers or addresses."""
    pool = ConnectionPool()
    addresses = [getattr(server, "address", server) for server in servers]
    client = NameServerClient(addresses, pool, random=Random(seed), timeout_ms=timeout_ms)
    try:
        yield client
    finally:
        await client.close()
        await pool.close()


@asynccontextmanager
async def routes_of(*servers, **settings):
    """Open the Routes of a client of these servers."""
    async with client_of(*servers) as client:
        routes = Routes(client, **settings)
        try:
            yield routes
        finally:
            await routes.close()


def queue_data(name, *, read=2, write=2, perm=6):
    return QueueData(broker_name=name, read_queue_count=read, write_queue_count=write, perm=perm)


def broker(name, addresses=None):
    return BrokerData(cluster="c", broker_name=name, addresses=addresses or {0: f"{name}:10911"})


def route(*queues, brokers=None, **more):
    return TopicRoute(queues=queues, brokers=brokers or tuple(broker(q.broker_name) for q in queues), **more)
