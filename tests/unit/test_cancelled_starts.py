"""A start that is cancelled, wherever it waits, leaves no server, no thread and no port behind; nor does one that fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.assistants.server import HttpServer
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.failover.making import make_broker
from orbitmq.broker.registration.addresses import kept_port
from orbitmq.controller.app import Controller
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.consensus.node import RaftNode
from orbitmq.dashboard.app import Dashboard, DashboardOptions
from orbitmq.exporter.app import Exporter
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.with_controller import NameServerWithController
from orbitmq.net.loop import run
from orbitmq.testing import LocalCluster
from waiting import wait_for

pytestmark = pytest.mark.real

HOST = "127.0.0.1"
SILENT = f"{HOST}:9"
"""No server listens there."""
SUSPENSIONS_MAX = 12
"""Starts that wait for other servers are suspended without end."""


class Service(Protocol):
    """What is started and stopped."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class Port:
    """A free port that is kept from others, and the settings of servers that listen on ports of their own."""

    def __init__(self, root: Path, port: int) -> None:
        self.root, self.port = root, port

    def name_server(self, **settings: Any) -> NameServerConfig:
        paths: dict[str, Any] = {
            "kv_config_path": self.root / "kv.json",
            "config_store_path": self.root / "namesrv.conf",
        }
        return NameServerConfig(bind_address=HOST, listen_port=0, metrics_port=0, **paths, **settings)

    def broker(self, **settings: Any) -> BrokerConfig:
        return BrokerConfig(
            bind_address=HOST, listen_port=0, metrics_port=0, namesrv_addr=SILENT, broker_role="ASYNC_MASTER",
            store_path_root_dir=self.root / "broker", **settings,
        )  # fmt: skip

    def controller(self) -> ControllerConfig:
        return ControllerConfig(
            controller_d_leger_peers=self.peers, controller_d_leger_self_id="n0", metrics_port=0,
            controller_store_path=self.root / "controller", config_store_path=self.root / "controller.conf",
            acl_file=self.root / "accounts.json",
        )  # fmt: skip

    @property
    def peers(self) -> str:
        return f"n0-{HOST}:{self.port};n1-{HOST}:8;n2-{SILENT}"


MEMBER = {"enable_d_leger_commit_log": True, "d_leger_self_id": "n0"}
SERVICES: dict[str, Callable[[Port], Service]] = {
    "NameServer": lambda port: NameServer(port.name_server()),
    "NameServer with a controller": lambda port: NameServerWithController(port.name_server(), port.controller()),
    "controller": lambda port: Controller(port.controller(), RaftNode),
    "broker": lambda port: Broker(port.broker()),
    "broker of a group": lambda port: make_broker(port.broker(enable_controller_mode=True, controller_addr=SILENT)),
    "broker with a controller": lambda port: make_broker(port.broker(d_leger_peers=port.peers, **MEMBER)),
    "exporter": lambda port: Exporter(SILENT, port=0),
    "dashboard": lambda port: Dashboard(SILENT, DashboardOptions(port=0)),
    "assistants": lambda port: HttpServer(ClusterClients(SILENT)),
    "cluster": lambda port: LocalCluster(replicas=3),
}


class CancelledAt:
    """Awaits a coroutine, and cancels the task when it is suspended for the nth time."""

    def __init__(self, work: Coroutine[Any, Any, None], suspension: int) -> None:
        self._steps = work.__await__()
        self._suspension = suspension

    def __await__(self) -> Generator[Any, None, None]:
        task, step = asyncio.current_task(), partial(self._steps.send, None)
        assert task is not None
        for suspension in count():
            try:
                awaited = step()
            except StopIteration:
                return
            if suspension == self._suspension:
                asyncio.get_running_loop().call_soon(task.cancel)
            try:
                yield awaited
            except BaseException as error:
                step = partial(self._steps.throw, error)
            else:
                step = partial(self._steps.send, None)


def listening() -> set[Any]:
    """The addresses on which this process listens."""
    return {each.laddr for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN}


async def is_started_before(service: Service, suspension: int) -> bool:
    """Start a service and cancel that at its nth suspension; return True if it was complete before, and stop it."""

    async def start() -> None:
        await CancelledAt(service.start(), suspension)

    try:
        await asyncio.get_running_loop().create_task(start())
    except asyncio.CancelledError:
        return False
    await service.stop()
    return True


@pytest.mark.parametrize("name", SERVICES)
def test_a_start_that_is_cancelled_leaves_nothing(name: str, tmp_path: Path) -> None:
    before, threads = listening(), set(threading.enumerate())
    for suspension in range(SUSPENSIONS_MAX):
        with ExitStack() as kept:
            socket = kept.enter_context(kept_port(HOST, 0))
            service = SERVICES[name](Port(tmp_path / str(suspension), socket.getsockname()[1]))
            is_started = run(
                is_started_before(service, suspension)
            )  # a server that is left is a warning, which is an error
        assert listening() == before, suspension
        # A thread that looks at the disk once ends by itself, and may have just begun.
        wait_for(lambda: set(threading.enumerate()) <= threads, f"no thread of a start that ended at {suspension}")
        if is_started:
            return
