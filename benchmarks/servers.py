"""Starting, pinning, weighing and stopping the servers that are compared: Java's 5.3.3 and ours."""

from __future__ import annotations

import atexit
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import psutil

from benchmarks.load import BUILD, BenchmarkError
from benchmarks.probe import RUNTIME_INFO, ask, ask_route, ask_send, wait_for

STOP_TIMEOUT_S = 15
OPEN_FILES = 100_000
JAVA_VERSION = "5.3.3"
JARS = Path(__file__).parent.parent / "tests" / "interop" / "java" / "target" / "dependency"
# Upstream's own garbage collector flags (distribution/bin/run{server,broker}.sh) with a heap that fits a small machine.
# AlwaysPreTouch is left out: it would only make the resident size equal the heap's.
JAVA_TUNING = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:-UseLargePages",
]
JAVA_HEAP = {
    "nameserver": ["-Xms2g", "-Xmx2g", "-Xmn1g", "-XX:MetaspaceSize=128m", "-XX:MaxMetaspaceSize=320m"],
    "broker": ["-Xms4g", "-Xmx4g", "-Xmn2g", "-XX:MaxDirectMemorySize=4g"],
}
JAVA_MAIN = {
    "nameserver": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
}
# An installed package has its bytecode next to it; a checkout may be forbidden to write it.
BYTECODE = {"PYTHONPYCACHEPREFIX": str(BUILD / "bytecode")}
MAPPED_STORE_FOLDERS = ("/commitlog/", "/consumequeue/", "/index/")


@dataclass(frozen=True)
class Memory:
    """Resident memory in bytes; `without_store` leaves out the pages of mapped store files."""

    rss: int
    anonymous: int
    without_store: int


@dataclass
class Server:
    """One running server process with a folder of its own."""

    name: str  # "java" or "ours"
    kind: str  # "nameserver", "broker" or "up"
    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    started_at_s: float
    first_answer_ms: float = 0
    ports: dict[str, int] = field(default_factory=dict)
    companion: Server | None = None  # the NameServer that a broker registers with
    command: Sequence[str] = ()

    @property
    def pid(self) -> int:
        """The process, for /proc."""
        return self.process.pid

    def pin(self, cores: set[int]) -> None:
        """Let every thread of the server run on `cores` only."""
        for task in os.listdir(f"/proc/{self.pid}/task"):
            try:
                os.sched_setaffinity(int(task), cores)
            except ProcessLookupError:
                continue  # the thread ended meanwhile

    def pause(self) -> None:
        """Stop the process, so that its timers do not disturb the other one's turn."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self.process.send_signal(signal.SIGCONT)

    def memory(self) -> Memory:
        """Read what the process holds now."""
        rss = anonymous = store = 0
        in_store = False
        for line in Path(f"/proc/{self.pid}/smaps").read_text().splitlines():
            first, *rest = line.split()
            if not first.endswith(":"):
                in_store = any(part in line for part in MAPPED_STORE_FOLDERS)
            elif first == "Rss:":
                rss += int(rest[0])
                store += int(rest[0]) if in_store else 0
            elif first == "Anonymous:":
                anonymous += int(rest[0])
        return Memory(rss * 1024, anonymous * 1024, (rss - store) * 1024)

    def stop(self) -> None:
        """End the process and remove its folder."""
        self.resume()
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.companion is not None:
            self.companion.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def restart_killed(self, cores: set[int]) -> float:
        """Kill the process with SIGKILL, start it again on its files, and return the milliseconds to its first answer."""
        self.process.kill()
        self.process.wait()
        again = _spawn(self.name, self.kind, self.command, self.folder, self.ports, cores)
        self.process, self.started_at_s = again.process, again.started_at_s
        try:
            _await_first_answer(self)
        except BenchmarkError as error:
            raise BenchmarkError(f"{self.name} did not come up again: {error}\n{self.log_tail()}") from None
        return (time.monotonic() - self.started_at_s) * 1000

    def log_tail(self) -> str:
        """Return the end of what the process printed."""
        return (self.folder / "output.log").read_text(errors="replace")[-1500:]


def free_port() -> int:
    """Return a port whose neighbours are free, too: a Java broker also takes port-2 and port+1.

    Below the range that the system gives to outgoing connections, whose ends linger there for a minute.
    """
    for _ in range(1000):
        port = random.randrange(11_000, 32_000)
        if all(_is_free(port + step) for step in (-2, 0, 1)):
            return port
    raise BenchmarkError("no free port found")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def affinity(cores: set[int]) -> Iterator[None]:
    """Run on `cores` for a while: a child that is started meanwhile inherits them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def allow_open_files() -> int:
    """Let this process and its children open many files, or as many as it may set; return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (max(soft, OPEN_FILES), hard):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(hard, limit)))
            return limit
    return soft


def java_command() -> list[str]:
    """Return the start of a Java command line with RocketMQ's jars, or say how to get them."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None or not any(JARS.glob(f"rocketmq-broker-{JAVA_VERSION}.jar")):
        raise BenchmarkError(
            f"the Java side needs Java 17+ and the RocketMQ {JAVA_VERSION} jars: run make peers, "
            "or measure ours alone with --peers ours"
        )
    return [java]


def start(
    name: str, kind: str, cores: set[int], *, flush: str = "ASYNC_FLUSH", settings: str = "", must_send: bool = True
) -> Server:
    """Start a server on `cores` and wait for its first answer; of a broker for a SEND_OK, if it `must_send`."""
    companion = None
    if kind == "broker" and "namesrvAddr" not in settings:
        companion = start("ours", "nameserver", cores)  # idle but for a registration every 30 s
        settings += f"namesrvAddr=127.0.0.1:{companion.port}\n"
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-{kind}-", dir=_folders()))
    ports = {"port": free_port()}
    if kind == "up":
        ports["nameserver"] = free_port()
    command = (
        _java_line(kind, folder, ports, flush, settings)
        if name == "java"
        else _our_line(kind, folder, ports, flush, settings)
    )
    server = _spawn(name, kind, command, folder, ports, cores)
    server.companion = companion
    try:
        _await_first_answer(server, must_send=must_send)
    except BenchmarkError as error:
        tail = server.log_tail()
        server.stop()
        raise BenchmarkError(f"{name} {kind} did not come up: {error}\n{tail}") from None
    except BaseException:
        server.stop()
        raise
    server.first_answer_ms = (time.monotonic() - server.started_at_s) * 1000
    return server


@cache
def _folders() -> Path:
    """Return where the servers' folders lie; it is removed at the end of this process, wherever an interruption came."""
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def end_children() -> None:
    """End the processes that this one has started and that are still there: a signal may come while one starts."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.terminate()
            child.resume()
    _, staying = psutil.wait_procs(children, timeout=STOP_TIMEOUT_S)
    for child in staying:
        child.kill()


def _spawn(
    name: str, kind: str, command: Sequence[str], folder: Path, ports: dict[str, int], cores: set[int]
) -> Server:
    with (folder / "output.log").open("wb") as log, affinity(cores):
        started_at_s = time.monotonic()
        environment = os.environ | {"ROCKETMQ_HOME": str(folder), "NAMESRV_ADDR": ""} | BYTECODE
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder, env=environment
        )
    return Server(name, kind, ports["port"], folder, process, started_at_s, ports=ports, command=command)


def _await_first_answer(server: Server, *, must_send: bool = True) -> None:
    def alive() -> bool:
        return server.process.poll() is None

    if server.kind == "nameserver":
        wait_for(lambda: ask_route(server.port, "no-such-topic"), codes=(), alive=alive)
    else:
        question = partial(ask_send, server.port, "first") if must_send else partial(ask, server.port, RUNTIME_INFO, {})
        wait_for(question, codes=(0,), alive=alive)


def _broker_settings(folder: Path, port: int, flush: str, settings: str) -> Path:
    path = folder / "broker.conf"
    path.write_text(
        "brokerClusterName=BenchCluster\nbrokerName=bench-broker\nbrokerId=0\nbrokerIP1=127.0.0.1\n"
        f"listenPort={port}\nstorePathRootDir={folder}/store\n"
        f"flushDiskType={flush}\nautoCreateTopicEnable=true\n"
        f"{settings}"
    )
    return path


def _java_line(kind: str, folder: Path, ports: dict[str, int], flush: str, settings: str) -> list[str]:
    if kind == "nameserver":
        config = folder / "nameserver.conf"
        config.write_text(f"listenPort={ports['port']}\n{settings}")
    else:
        config = _broker_settings(folder, ports["port"], flush, settings)
    return [
        *java_command(),
        *JAVA_HEAP[kind],
        *JAVA_TUNING,
        f"-Duser.home={folder}",
        "-cp",
        f"{JARS}/*",
        JAVA_MAIN[kind],
        "-c",
        str(config),
    ]


def _our_line(kind: str, folder: Path, ports: dict[str, int], flush: str, settings: str) -> list[str]:
    port, data = str(ports["port"]), str(folder / "data")
    command = [sys.executable, "-m", "orbitmq", kind, "--host", "127.0.0.1", "--data-dir", data]
    if kind == "nameserver":
        return [*command, "--port", port]
    if kind == "broker":
        config = _broker_settings(folder, ports["port"], flush, settings)
        return [*command, "--port", port, "-c", str(config)]
    return [*command, "--nameserver-port", str(ports["nameserver"]), "--broker-port", port]
