"""Real Java peers for tests: NameServer, broker and clients of Apache RocketMQ 5.3.3, started and stopped from Python.

`make peers` installs them. Every JVM stops cleanly when its stdin closes, so none outlives the test run; readiness
is what the process itself says, never a guess in seconds.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from orbitmq.wire.signature import Credentials
from waiting import wait_for

VERSION = os.environ.get("ORBITMQ_ROCKETMQ", "5.3.3")
"""Of the peers; `scripts/make-peers` takes another one from this variable, too."""
START_TIMEOUT_S = 90
ANSWER_TIMEOUT_S = 60
GET_BROKER_RUNTIME_INFO, GET_BROKER_CLUSTER_INFO = 28, 106

_PROJECT = Path(__file__).parent / "java"
_TARGET = _PROJECT / "target" / os.environ.get("ORBITMQ_ROCKETMQ", "")
_SET_UP = _PROJECT.parents[2] / "scripts" / "make-peers"
_JVM_OPTIONS = (
    "-Drocketmq.client.rebalance.waitInterval=1000",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
)
_OPENED = ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.util", "java.lang")


class PeerError(Exception):
    """A Java peer did not start, died, or answered with an error."""


def require_java() -> None:
    """Where Java's peers cannot run, skip the test loudly; in CI, fail it."""
    if (reason := why_unavailable()) is not None:
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def why_unavailable() -> str | None:
    """Return why the Java peers cannot run here, None when they can; sets them up where `make test` has not tried that."""
    if os.environ.get("ORBITMQ_PEERS") == "missing":
        return "no Java peers: `make peers` says what is missing"
    done = subprocess.run([str(_SET_UP)], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"`make peers` failed: {(done.stderr or done.stdout)[-2000:]}"
    return None


def java() -> str:
    """Return the java program: JAVA_HOME's, else the PATH's."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


def class_path() -> str:
    """Return the class path of all peers."""
    return os.pathsep.join((str(_TARGET / "classes"), str(_PROJECT / "logging"), f"{_TARGET}/dependency/*"))


class JavaProcess:
    """A JVM whose stdout lines are read as they come; closing its stdin stops it cleanly."""

    def __init__(
        self, name: str, home: Path, arguments: Iterable[str], *, heap_mb: int, jvm: Iterable[str] = ()
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log_path = home / f"{name}.log"
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        command = [
            java(),
            f"-Xmx{heap_mb}m",
            *_JVM_OPTIONS,
            *opened,
            f"-Duser.home={home}",
            f"-Djava.io.tmpdir={home}",
            *jvm,
            "-cp",
            class_path(),
            *arguments,
        ]
        # The environment may hold options for other JVMs (Spark's) and addresses that a peer would believe.
        unwanted = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "NAMESRV_ADDR", "CLASSPATH")
        environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        environment["ROCKETMQ_HOME"] = str(home)
        self._log = self.log_path.open("ab")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment, cwd=home
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=f"{name} stdout", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id, for measurements and signals."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            self._log.write(raw)
            self._log.flush()
            self.on_line(raw.decode(errors="replace").rstrip("\n"))
        self.on_line(None)

    def on_line(self, line: str | None) -> None:
        """Take the next line of stdout, or None at its end (on the reader's thread)."""
        self._lines.put(line)

    def wait_for_line(self, accept: Callable[[str], bool]) -> str:
        """Return the first line that `accept` takes; PeerError with the log's end when the process dies first."""
        while True:
            try:
                line = self._lines.get(timeout=START_TIMEOUT_S)
            except queue.Empty:
                raise PeerError(f"{self.name} said nothing for {START_TIMEOUT_S} s:\n{self.log_end()}") from None
            if line is None:
                raise PeerError(f"{self.name} ended with {self._process.wait()}:\n{self.log_end()}")
            if accept(line):
                return line

    def log_end(self) -> str:
        """Return the end of the log, for error messages."""
        return self.log_path.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """Stop cleanly, as an operator would: shutdown hooks run."""
        self._finish(self._close_stdin)

    def kill(self) -> None:
        """End immediately (kill -9): no hook runs."""
        self._finish(self._process.kill)

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _finish(self, how: Callable[[], None]) -> None:
        if self._process.poll() is None:
            how()
            try:
                self._process.wait(ANSWER_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None and not stream.closed:
                stream.close()


class JavaServer:
    """What NameServer and broker share: a main class, a properties file, a line that says it is up."""

    main_class: str
    up_mark = "boot success"
    advertised_host = "127.0.0.1"
    port = 0

    def __init__(self, home: Path, *, heap_mb: int, jvm: Iterable[str] = ()) -> None:
        self.home = home
        self._heap_mb = heap_mb
        self._jvm = tuple(jvm)
        self._process: JavaProcess | None = None

    @property
    def address(self) -> str:
        """Where clients and brokers are sent, `host:port`."""
        return f"{self.advertised_host}:{self.port}"

    @property
    def process(self) -> JavaProcess:
        """The running JVM."""
        assert self._process is not None, "not started"
        return self._process

    def _launch(self, properties: Mapping[str, object]) -> str:
        """Start the JVM with these properties and return the line that says it is up."""
        self.home.mkdir(parents=True, exist_ok=True)
        path = self.home / f"{type(self).__name__}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        arguments = ("peers.Guard", self.main_class, "-c", str(path))
        self._process = JavaProcess(
            type(self).__name__, self.home, arguments, heap_mb=self._heap_mb, jvm=(*_server_options(), *self._jvm)
        )
        try:
            return self._process.wait_for_line(lambda line: self.up_mark in line)
        except PeerError:
            self._process.kill()
            raise

    def stop(self) -> None:
        """Stop cleanly."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End immediately (kill -9)."""
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until the server says it is up."""
        raise NotImplementedError


class JavaNameServer(JavaServer):
    """Apache RocketMQ's own NameServer on a port of its choice."""

    main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"

    def __init__(
        self, home: Path, *, properties: Mapping[str, object] | None = None, port: int = 0, jvm: Iterable[str] = ()
    ) -> None:
        super().__init__(home, heap_mb=256, jvm=jvm)
        self.port = port
        self._properties = dict(properties or {})

    def start(self) -> None:
        """Start; a restarted NameServer keeps its port."""
        up = self._launch({"listenPort": self.port, "bindAddress": "127.0.0.1", **self._properties})
        self.port = int(up.rsplit(":", 1)[1])


class JavaBroker(JavaServer):
    """Apache RocketMQ's own broker, with a small store and three free ports (VIP, service, HA)."""

    main_class = "org.apache.rocketmq.broker.BrokerStartup"

    def __init__(
        self,
        home: Path,
        name_servers: str,
        *,
        name: str = "java-broker",
        cluster: str = "JavaCluster",
        broker_id: int = 0,
        advertised_host: str = "127.0.0.1",
        store: Path | None = None,
        properties: Mapping[str, object] | None = None,
        jvm: Iterable[str] = (),
    ) -> None:
        super().__init__(home, heap_mb=512, jvm=("-XX:MaxDirectMemorySize=512m", *jvm))
        self.name, self.cluster, self.broker_id = name, cluster, broker_id
        self.advertised_host = advertised_host
        self.store = store or home / "store"
        self._name_servers = name_servers
        self._properties = dict(properties or {})

    def start(self) -> None:
        """Start; a restarted broker keeps its ports, a first start looks for free ones until it gets them."""
        if not self.port:
            self._find_ports()
        else:
            self._launch(self._settings())
        for name_server in self._name_servers.split(";"):
            self._wait_until_registered(name_server)

    def _wait_until_registered(self, name_server: str) -> None:
        """Ask until the NameServer knows this broker: a Java broker says it is up a moment before that."""
        wanted = self.address.encode()
        deadline = time.monotonic() + START_TIMEOUT_S
        while wanted not in ask(name_server, GET_BROKER_CLUSTER_INFO)[1]:
            if time.monotonic() > deadline:
                raise PeerError(f"{self.address} never registered with {name_server}:\n{self.process.log_end()}")
            time.sleep(0.05)

    def _find_ports(self) -> None:
        for attempt in itertools.count(1):
            self.port = free_ports(-2, 0, 1)
            try:
                self._launch(self._settings())
                return
            except PeerError as error:
                # Another program was quicker to one of the three ports.
                if attempt == 5 or "bind" not in str(error).lower():
                    raise

    def _settings(self) -> dict[str, object]:
        return {
            "brokerClusterName": self.cluster,
            "brokerName": self.name,
            "brokerId": self.broker_id,
            "brokerRole": "SLAVE" if self.broker_id else "ASYNC_MASTER",
            "namesrvAddr": self._name_servers,
            "brokerIP1": self.advertised_host,
            "brokerIP2": self.advertised_host,
            "bindAddress": "127.0.0.1",
            "listenPort": self.port,
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            "mappedFileSizeCommitLog": 16 * 1024 * 1024,
            "mappedFileSizeConsumeQueue": 20 * 3000,
            "maxHashSlotNum": 10_000,
            "maxIndexNum": 40_000,
            "diskMaxUsedSpaceRatio": 95,
            "mappedFileSizeTimerLog": 1024 * 1024,
            # A loaded test machine is slow, not broken: nothing is refused for a late answer.
            "waitTimeMillsInSendQueue": 30_000,
            "waitTimeMillsInPullQueue": 30_000,
            "waitTimeMillsInHeartbeatQueue": 30_000,
            "osPageCacheBusyTimeOutMills": 30_000,
            **self._properties,
        }


@contextmanager
def java_servers(root: Path, **properties: object) -> Iterator[tuple[str, JavaBroker]]:
    """The address of a NameServer of Java's, and its one broker; the test is skipped where they cannot run."""
    require_java()
    name_server = JavaNameServer(root / "nameserver")
    name_server.start()
    broker = JavaBroker(root / "broker", name_server.address, properties=properties)
    try:
        broker.start()
        yield name_server.address, broker
    finally:
        broker.kill()
        name_server.kill()


class JavaController(JavaServer):
    """Apache RocketMQ's own controller: one node that replicates to itself, with DLedger.

    Args:
        advertised_host: where the controller says that it is; it listens on 127.0.0.1.
    """

    main_class = "org.apache.rocketmq.controller.ControllerStartup"

    def __init__(
        self,
        home: Path,
        *,
        advertised_host: str = "127.0.0.1",
        properties: Mapping[str, object] | None = None,
        jvm: Iterable[str] = (),
    ) -> None:
        super().__init__(home, heap_mb=256, jvm=("-XX:MaxDirectMemorySize=256m", *jvm))
        self.advertised_host = advertised_host
        self._properties = dict(properties or {})

    def start(self) -> None:
        """Start; a restarted controller keeps its port, a first start looks for a free one until it gets it."""
        for attempt in itertools.count(1):
            self.port = self.port or free_ports(0)
            try:
                self._launch(self._settings())
                return
            except PeerError as error:
                if attempt == 5 or "bind" not in str(error).lower():
                    raise
                self.port = 0

    def _settings(self) -> dict[str, object]:
        return {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.address}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": self.home / "controller",
            "configStorePath": self.home / "controller.properties",
            "mappedFileSize": 16 * 1024 * 1024,
            "bindAddress": "127.0.0.1",
            **self._properties,
        }


class JavaProxy(JavaServer):
    """Apache RocketMQ's own proxy in front of a cluster: clients of 5.x speak gRPC to it."""

    main_class = "org.apache.rocketmq.proxy.ProxyStartup"
    up_mark = "rocketmq-proxy startup successfully"

    def __init__(self, home: Path, name_servers: str, *, cluster: str = "DefaultCluster") -> None:
        super().__init__(home, heap_mb=384, jvm=("-XX:MaxDirectMemorySize=256m",))
        self._name_servers, self._cluster = name_servers, cluster

    def start(self) -> None:
        """Start on a free port, which is looked for until the proxy gets it."""
        self.home.mkdir(parents=True, exist_ok=True)
        path = self.home / "proxy.json"
        for attempt in itertools.count(1):
            self.port = free_ports(0, 1)
            settings = {
                "rocketMQClusterName": self._cluster,
                "namesrvAddr": self._name_servers,
                "grpcServerPort": self.port,
                "remotingListenPort": self.port + 1,
                "proxyMode": "cluster",
                "localServeAddr": "127.0.0.1",
                "transactionHeartbeatPeriodSecond": 1,  # until then no broker can ask how a transaction ends
            }
            path.write_text(json.dumps(settings))
            arguments = ("peers.Guard", self.main_class, "-pc", str(path))
            jvm = (*_server_options(), *self._jvm)
            self._process = JavaProcess("JavaProxy", self.home, arguments, heap_mb=self._heap_mb, jvm=jvm)
            try:
                self._process.wait_for_line(lambda line: self.up_mark in line)
                return
            except PeerError as error:
                self._process.kill()
                if attempt == 5 or "bind" not in str(error).lower():
                    raise


def walk_through(proxy: JavaProxy, client: str, rows: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what an official client of 5.x ("python" or "java") has told of each row of `grpc_client.py` and `peers.GrpcClient`."""
    path = os.pathsep.join((f"{_TARGET}/grpc-client/*", class_path()))
    home = f"-Duser.home={proxy.home}", f"-Djava.io.tmpdir={proxy.home}"
    command = [java(), *_JVM_OPTIONS, "-Xmx256m", *home, "-cp", path, "peers.GrpcClient"]
    if client == "python":
        command = [sys.executable, str(Path(__file__).with_name("grpc_client.py"))]
    environment = {**os.environ, "HOME": str(proxy.home)}  # where the clients write their logs
    command += [proxy.address, *rows]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=280)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {one.pop("row"): one for one in told}
    assert found.keys() == set(rows), done.stderr[-4000:]
    return found


def guarded(superuser: Credentials, inner: Credentials) -> tuple[dict[str, object], dict[str, object]]:
    """Settings of a Java broker, and of ours, with authentication and authorization on."""
    user = json.dumps({"username": superuser.access_key, "password": superuser.secret_key})
    credentials = json.dumps({"accessKey": inner.access_key, "secretKey": inner.secret_key})
    javas: dict[str, object] = {
        f"{kind}MetadataProvider": f"org.apache.rocketmq.auth.{kind}.provider.Local{kind.capitalize()}MetadataProvider"
        for kind in ("authentication", "authorization")
    }
    javas |= {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    javas |= {"initAuthenticationUser": user, "innerClientAuthenticationCredentials": credentials}
    ours: dict[str, object] = {"authentication_enabled": True, "authorization_enabled": True}
    ours |= {"init_authentication_user": user, "inner_client_authentication_credentials": credentials}
    return javas, ours


def controlled(controllers: str, **properties: object) -> dict[str, object]:
    """Return the properties of a Java broker whose role the controllers at `controllers` (host:port, ;) decide."""
    return {
        "enableControllerMode": "true",
        "controllerAddr": controllers,
        "brokerId": -1,
        "brokerRole": "SLAVE",
        "allAckInSyncStateSet": "true",
        **properties,
    }


class JavaClients:
    """A JVM full of Java clients: producers, consumers and mqadmin, driven by commands (peers.Peer)."""

    def __init__(self, home: Path, *, jvm: Iterable[str] = ()) -> None:
        self.home = home
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        self._ended = False
        self._process = _ClientProcess(self._take, home, jvm)
        try:
            self.wait_for(lambda: bool(self.events("ready")), "the Java clients' JVM", START_TIMEOUT_S)
        except PeerError:
            self._process.kill()
            raise

    def close(self) -> None:
        """Stop every client cleanly, then the JVM."""
        self._process.stop()

    def call(self, action: str, **arguments: object) -> Any:
        """Run one command and return its result; PeerError carries Java's exception."""
        number = next(self._ids)
        waiting = self._answers[number] = queue.Queue()
        self._process.say(json.dumps({"id": number, "do": action, **arguments}))
        try:
            answer = waiting.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            raise PeerError(f"no answer to {action}:\n{self._process.log_end()}") from None
        finally:
            del self._answers[number]
        if "error" in answer:
            raise PeerError(f"{action}: {answer['error']}")
        return answer.get("result")

    def mqadmin(self, *arguments: str) -> str:
        """Run RocketMQ's own mqadmin and return what it printed."""
        return str(self.call("mqadmin", args=list(arguments)))

    def producer(self, group: str, name_servers: str, **settings: object) -> JavaProducer:
        """Start a producer."""
        return JavaProducer(self, group, name_servers, settings)

    def consumer(self, group: str, name_servers: str, topic: str, **settings: object) -> JavaConsumer:
        """Start a push consumer; `tag`, `sql`, `model`, `from`, `orderly`, `fail_first`, `poll_ms` are settings."""
        return JavaConsumer(self, group, name_servers, topic, settings)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a kind so far."""
        with self._changed:
            return [event for event in self._events if event["event"] == kind]

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Wait until `condition` holds; it is looked at after every event, and ten times a second for other things."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            with self._changed:
                if self._ended or time.monotonic() > deadline:
                    raise PeerError(f"waited in vain for {what}:\n{self._process.log_end()}")
                self._changed.wait(0.1)

    def _take(self, line: str | None) -> None:
        if line is not None and not line.startswith("{"):
            return
        with self._changed:
            if line is None:
                self._ended = True
                for waiting in list(self._answers.values()):
                    waiting.put({"error": "the Java client process ended"})
            else:
                self._sort(json.loads(line))
            self._changed.notify_all()

    def _sort(self, said: dict[str, Any]) -> None:
        if "event" in said:
            self._events.append(said)
        elif said["id"] in self._answers:
            self._answers[said["id"]].put(said)


class _ClientProcess(JavaProcess):
    """The JVM behind JavaClients: each line goes straight to its owner."""

    def __init__(self, take: Callable[[str | None], None], home: Path, jvm: Iterable[str]) -> None:
        self._take = take
        super().__init__("JavaClients", home, ("peers.Peer",), heap_mb=384, jvm=(*_server_options(), *jvm))

    def on_line(self, line: str | None) -> None:
        self._take(line)

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()


class JavaProducer:
    """One Java producer inside JavaClients."""

    def __init__(self, clients: JavaClients, group: str, name_servers: str, settings: dict[str, object]) -> None:
        self._clients = clients
        self.name = f"producer-{next(clients._ids)}"
        clients.call("producer.start", name=self.name, group=group, name_servers=name_servers, **settings)

    def send(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        """Send one after another; returns one result each."""
        return list(self._clients.call("producer.send", name=self.name, messages=list(messages)))

    def send_batch(self, *messages: dict[str, Any]) -> dict[str, Any]:
        """Send all as one batch."""
        return dict(self._clients.call("producer.batch", name=self.name, messages=list(messages)))

    def recall(self, topic: str, handle: str) -> Any:
        """Take a delayed message back; return its id."""
        return self._clients.call("producer.recall", name=self.name, topic=topic, handle=handle)

    def send_oneway(self, *messages: dict[str, Any]) -> None:
        """Send without waiting for any answer."""
        self._clients.call("producer.oneway", name=self.name, messages=list(messages))

    def request(self, message: dict[str, Any], timeout_ms: int = 30_000) -> None:
        """Send a request to the consumers of its topic; 5.3.3's own `request` returns without the reply."""
        self._clients.call("producer.request", name=self.name, message=message, timeout_ms=timeout_ms)

    def wait_for_replies(self, count: int) -> list[dict[str, Any]]:
        """Wait until `count` requests have got their replies; return all replies so far, bodies as bytes."""

        def replies() -> list[dict[str, Any]]:
            return [event for event in self._clients.events("reply") if event["producer"] == self.name]

        self._clients.wait_for(lambda: len(replies()) >= count, f"{count} replies at {self.name}")
        return [{**event, "body": base64.b64decode(event["body"])} for event in replies()]

    def reply(self, request: Mapping[str, Any], body: bytes) -> dict[str, Any]:
        """Reply to a request as a consumer received it; the broker has handed it over when this returns."""
        encoded = base64.b64encode(body).decode()
        properties = request["properties"]
        return dict(self._clients.call("producer.reply", name=self.name, properties=properties, body=encoded))

    def stop(self) -> None:
        """Unregister and stop."""
        self._clients.call("producer.stop", name=self.name)


class JavaConsumer:
    """One Java push consumer inside JavaClients."""

    def __init__(
        self, clients: JavaClients, group: str, name_servers: str, topic: str, settings: dict[str, object]
    ) -> None:
        self._clients = clients
        self.name = f"consumer-{next(clients._ids)}"
        self.client_id = clients.call(
            "consumer.start", name=self.name, group=group, name_servers=name_servers, topic=topic, **settings
        )

    @property
    def received(self) -> list[dict[str, Any]]:
        """What it received so far, bodies as bytes."""
        return [
            {**event, "body": base64.b64decode(event["body"])}
            for event in self._clients.events("message")
            if event["consumer"] == self.name
        ]

    def wait_for_messages(self, count: int, timeout_s: float = ANSWER_TIMEOUT_S) -> list[dict[str, Any]]:
        """Wait until `count` messages have come and return all that have."""
        self._clients.wait_for(lambda: len(self.received) >= count, f"{count} messages at {self.name}", timeout_s)
        return self.received

    def queues(self) -> set[tuple[str, int]]:
        """The queues it owns now, as (broker name, queue id)."""
        return {(broker, queue_id) for broker, queue_id in self._clients.call("consumer.queues", name=self.name)}

    def stop(self) -> None:
        """Commit offsets, unregister and stop."""
        self._clients.call("consumer.stop", name=self.name)


def ask(
    address: str,
    code: int,
    ext_fields: Mapping[str, str] | None = None,
    *,
    version: int = 479,
    body: bytes = b"",
    one_way: Iterable[tuple[int, Mapping[str, str], bytes]] = (),
) -> tuple[dict[str, Any], bytes]:
    """Ask a server one question by hand and return the answer's JSON header and body.

    This knows nothing of our codecs, which are what the peers are there to check.

    Args:
        one_way: requests that want no answer, sent before it over the same connection: code, fields, body.
    """
    frames = [_frame(*request, flag=2, version=version) for request in one_way]
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), ANSWER_TIMEOUT_S) as connection:
        connection.sendall(b"".join(frames) + _frame(code, ext_fields, body, flag=0, version=version))
        with connection.makefile("rb") as stream:
            size, header_size = struct.unpack(">II", stream.read(8))
            rest = stream.read(size - 4)
    if header_size >> 24:
        return {}, rest[header_size & 0xFFFFFF :]
    return json.loads(rest[:header_size]), rest[header_size:]


def wait_until_dispatched(address: str) -> None:
    """Wait until a broker's queues and index show all that was sent: Java's answers a send before that."""
    wait_for(
        lambda: json.loads(ask(address, GET_BROKER_RUNTIME_INFO)[1])["table"]["dispatchBehindBytes"] == "0",
        f"all messages of {address} in their queues",
    )


def _frame(code: int, ext_fields: Mapping[str, str] | None, body: bytes, *, flag: int, version: int) -> bytes:
    header: dict[str, Any] = {"code": code, "flag": flag, "language": "OTHER", "opaque": 1, "version": version}
    header["serializeTypeCurrentRPC"] = "JSON"
    if ext_fields is not None:
        header["extFields"] = dict(ext_fields)
    text = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


def message(topic: str, body: bytes, **description: object) -> dict[str, Any]:
    """Describe a message to a Java producer; `tag`, `keys`, `properties`, `queue_id` with `broker`, `order_key`, `flag`."""
    return {"topic": topic, "body": base64.b64encode(body).decode(), **description}


def free_ports(*places: int) -> int:
    """Return a port such that it and its neighbours at `places` are free right now.

    Below the range that outgoing connections are given: a server that restarts finds its ports free.
    """
    while True:
        port = random.randrange(12_000, 32_000)  # any will do, and two test runs should not try the same ones
        if all(_is_free(port + place) for place in (0, *places)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True


def _server_options() -> tuple[str, ...]:
    # The default pools are sized for big machines; a test machine has two cores and other work to do.
    return ("-Dio.netty.eventLoopThreads=2", "-Xss512k")
