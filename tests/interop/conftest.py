"""The cast of the interop tests. JVMs take seconds to start on a small machine, so each is started once per run.

`ours`          our NameServer and broker
`java_cluster`  Java's NameServer and broker; the broker is registered with a NameServer of ours as well
`mixed_cluster` Java's broker in a NameServer of ours: the only Java server of `make test`
`guest`         a broker of ours that is registered with Java's NameServer
`java`          a JVM full of Java clients
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from hostile.served import serving
from interop.peers import JavaBroker, JavaClients, JavaNameServer, require_java
from orbitmq.admin.client import AdminClient
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import BlockingCluster, LocalCluster

_names = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs Java."""
    for item in items:
        if "interop" in item.path.parts:
            item.add_marker(pytest.mark.java)


@dataclass(frozen=True)
class JavaCluster:
    """Java's servers, and the NameServer of ours that knows the Java broker, too."""

    name_server: JavaNameServer
    broker: JavaBroker
    our_name_server: str


@dataclass(frozen=True)
class MixedCluster:
    """Java's broker, and the address of our NameServer."""

    name_server: str
    broker: JavaBroker


@pytest.fixture(scope="session")
def jars() -> None:
    """RocketMQ's jars and our Java programs are there: a loud skip on a laptop, a failure in CI."""
    require_java()


@pytest.fixture(scope="session")
def java(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    """A JVM full of Java clients."""
    clients = JavaClients(tmp_path_factory.mktemp("java-clients"))
    yield clients
    clients.close()


@pytest.fixture(scope="session")
def ours() -> Iterator[BlockingCluster]:
    """Our NameServer and broker."""
    with LocalCluster.running() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def our_name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a NameServer of ours that no broker of ours knows."""
    with serving(tmp_path_factory.mktemp("nameserver")) as served:
        yield served.address


@pytest.fixture(scope="session")
def java_name_server(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaNameServer]:
    """Java's NameServer."""
    name_server = JavaNameServer(tmp_path_factory.mktemp("java-nameserver"))
    name_server.start()
    yield name_server
    name_server.kill()


@pytest.fixture(scope="module")
def own_name_server(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaNameServer]:
    """A NameServer of Java's for one module: its brokers come and go, and no other makes its topics or gets messages."""
    with JavaNameServer(tmp_path_factory.mktemp("nameserver")) as name_server:
        yield name_server


@pytest.fixture(scope="session")
def java_cluster(
    java_name_server: JavaNameServer, our_name_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaCluster]:
    """Java's NameServer and broker; the broker is registered with a NameServer of ours as well."""
    both = f"{java_name_server.address};{our_name_server}"
    # It lives as long as the session, and compares 37 MB of its timer wheel at each flush: a quarter of a core at Java's 1 s.
    properties = {"timerFlushIntervalMs": 60_000}
    broker = JavaBroker(tmp_path_factory.mktemp("java-broker"), both, properties=properties)
    broker.start()
    yield JavaCluster(java_name_server, broker, our_name_server)
    broker.kill()  # A clean stop takes Java ten seconds; a test that needs one starts its own.


@pytest.fixture(scope="module")  # an idle broker of Java takes a tenth of a core
def mixed_cluster(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Java's broker in a NameServer of ours that knows no other."""
    with serving(tmp_path_factory.mktemp("nameserver")) as served:
        home = tmp_path_factory.mktemp("java-broker")
        broker = JavaBroker(home, served.address, properties={"timerFlushIntervalMs": 60_000})
        broker.start()
        yield MixedCluster(served.address, broker)
        broker.kill()


@pytest.fixture(scope="session")
def guest(java_name_server: JavaNameServer) -> Iterator[BlockingCluster]:
    """A broker of ours that is registered with Java's NameServer."""
    settings = {"namesrv_addr": java_name_server.address, "broker_cluster_name": "GuestCluster"}
    with LocalCluster.running(settings={**settings, "broker_name": "guest"}) as cluster:
        yield cluster


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for the test's topic or group that no other test uses."""
    return f"{request.node.originalname[5:45]}-{next(_names)}"


@pytest.fixture
def create_topic() -> Callable[..., None]:
    """Create a topic on a cluster's brokers: `create_topic(name_servers, topic, queues, cluster)`."""

    def create(name_servers: str, topic: str, queue_count: int = 4, cluster: str = "DefaultCluster") -> None:
        async def work() -> None:
            async with AdminClient(name_servers) as admin:
                config = TopicConfig(topic=topic, read_queue_count=queue_count, write_queue_count=queue_count)
                await admin.create_topic(config, cluster=cluster)

        asyncio.run(work())

    return create
