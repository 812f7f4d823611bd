"""Every row of the proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from crash.figures import FIGURES as CRASH
from hostile.broker_attacks import ATTACKS
from hostile.figures import FIGURES as HOSTILE
from proof.row import Row, Seed, Size

STORE = ("src/orbitmq/store", "src/orbitmq/wire/messages", "tests/crash")
BROKER = (*STORE, "src/orbitmq/broker", "src/orbitmq/net", "src/orbitmq/client")
TIMERS = (*STORE, "src/orbitmq/broker/timers", "src/orbitmq/broker/pop", "src/orbitmq/broker/delivery")
NAMESERVER = ("src/orbitmq/nameserver", "src/orbitmq/net", "src/orbitmq/wire")
HOSTILE_SOURCES = (*NAMESERVER, "tests/hostile", "tests/fuzz")
SOURCES = "src/orbitmq"


class About(NamedTuple):
    """What the registry adds to a row of a table of figures."""

    minutes: float
    sources: tuple[str, ...]
    rooms: tuple[str, ...]
    asked: str


CRASH_ABOUT: Mapping[str, About] = {
    "kills-sync": About(
        10, BROKER, ("store", "broker"), "a broker with SYNC_FLUSH loses nothing acknowledged in 200 kills -9"
    ),
    "kills-async": About(
        30, BROKER, ("store", "broker"), "a broker with ASYNC_FLUSH loses nothing acknowledged in 200 kills -9"
    ),
    "kills-in-transactions": About(
        7,
        BROKER,
        ("store", "broker", "transactions"),
        "each committed message is delivered once, over 60 kills of producer and broker",
    ),
    "kills-derived": About(
        40,
        BROKER,
        ("store", "broker", "timers", "pop", "transactions"),
        "200 kills of a broker under a mixed load lose no indexed message, timer, popped message or commit",
    ),
    "power-cuts": About(2, STORE, ("store",), "10,000 simulated power cuts lose nothing that was acknowledged"),
    "derived-cuts": About(
        1, TIMERS, ("store", "timers", "pop"), "5,000 power cuts lose nothing of index, timers and POP"
    ),
    "delay-cuts": About(
        1, TIMERS, ("store", "delivery"), "5,000 power cuts lose no delayed message and deliver none early"
    ),
    "delay-rate": About(
        0.1, BROKER, ("store", "broker", "delivery"), "40,000 delayed messages due together: 20,000/s, in order"
    ),
    "torn-files": About(1, STORE, ("store",), "every derived file, cut at every byte: nothing is missing"),
    "damaged-files": About(
        1, BROKER, ("store", "broker"), "every file of a broker, damaged in every way: no silent loss"
    ),
    "damaged-records": About(
        1,
        TIMERS,
        ("store", "broker", "delivery", "timers", "pop"),
        "one damaged record of each internal topic stops no other",
    ),
    "failing-calls": About(
        1, STORE, ("store",), "every system call of the write path fails with every error: typed refusals, no loss"
    ),
    "model": About(20, STORE, ("store",), "1,000,000 steps of random histories: the store has what a model of it has"),
}
HOSTILE_ABOUT: Mapping[str, About] = {
    name: About(minutes, HOSTILE_SOURCES, ("nameserver", "net", *rooms), asked)
    for name, minutes, rooms, asked in (
        (
            "injured-inputs",
            22,
            ("wire", "fuzz"),
            "10,000,000 injured inputs to every decoder: values or errors of ours",
        ),
        ("injured-frames", 7, ("wire",), "1,000,000 injured frames over sockets: honest clients are answered"),
        ("latency-under-attack", 1, (), "honest clients keep their latency while injured frames come in"),
        (
            "lying-lengths",
            0.1,
            ("wire",),
            "frames that declare wrong lengths: nothing is allocated, the connection ends",
        ),
        ("slow-senders", 1, (), "1,000 connections that send a byte per second end, and honest clients are answered"),
        ("idle-connections", 2, (), "10,000 idle connections are closed, and honest clients are answered"),
        (
            "connection-flood",
            0.3,
            (),
            "5,000 new connections per second, with a limit per address: honest clients are answered",
        ),
        ("deaf-readers", 2, (), "clients that never read their answers: memory stays within its limit"),
        ("json-bombs", 0.1, ("wire",), "nested and inflated bodies: the event loop is not blocked"),
        ("dearest-requests", 0.3, (), "the most expensive request of each code stays within its CPU time"),
        ("known-attacks", 0.1, (), "requests of published attacks change nothing"),
        ("request-matrix", 0.1, (), "every request code from every kind of client: answered or refused"),
        ("names", 0.1, (), "strange names in every field: refused, or returned as they came"),
        ("model-histories", 2, ("routing",), "1,000,000 steps: the route table equals a sequential model of it"),
    )
}
PYTEST_ABOUT: Mapping[str, tuple[float, tuple[str, ...], tuple[str, ...]]] = {
    "interop": (20, (SOURCES,), ("peers",)),
    "spark": (15, ("src/orbitmq/spark", "src/pyspark_rocketmq", "src/orbitmq/client"), ("java",)),
    "raft": (5, ("src/orbitmq/raft", "src/orbitmq/controller"), ()),
    "crash": (5, BROKER, ()),
    "hostile": (10, HOSTILE_SOURCES, ()),
    "cluster": (5, (*NAMESERVER, "src/orbitmq/broker", "src/orbitmq/client"), ("root", "peers")),
}
"""Minutes, sources and needs of pytest's rows; a folder that is not here is about all sources and needs nothing."""
MARK = "pytest.mark.proof"


def all_rows(root: Path) -> list[Row]:
    """Return every row of the tree at `root`, in the order in which they run."""
    return [
        *_crash(),
        *_replication(),
        *_failover(),
        *_hostile(),
        *_clusters(),
        *_simulations(),
        *_comparisons(),
        *_versions(),
        *_others(),
        *pytest_rows(root),
    ]


def pytest_rows(root: Path) -> Iterator[Row]:
    """Yield a row for each folder of tests in which a file has tests with the mark `proof`."""
    for folder in sorted(path for path in (root / "tests").iterdir() if path.is_dir()):
        if folder.name == "proof" or not _is_marked(folder):
            continue
        minutes, sources, needs = PYTEST_ABOUT.get(folder.name, (5, (SOURCES,), ()))
        yield Row(
            name=f"pytest/{folder.name}",
            asked=f"the long tests of tests/{folder.name} pass",
            command=("-m", "pytest", "-q", "-m", "proof", f"tests/{folder.name}"),
            sources=(*sources, f"tests/{folder.name}"),
            needs=needs,
            minutes=minutes,
            is_pytest=True,
        )


def _is_marked(folder: Path) -> bool:
    return any(MARK in path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))


def first_sentence(function: Callable[..., object]) -> str:
    """Return the first line of a function's docstring, without its full stop."""
    return (function.__doc__ or function.__name__).strip().splitlines()[0].rstrip(".")


def _figures(
    group: str, module: str, figures: Mapping[str, Callable[..., object]], about: Callable[[str], About]
) -> Iterator[Row]:
    """Yield a row for each figure of a module that `hostile.figures.main` runs."""
    for name in figures:
        minutes, sources, rooms, asked = about(name)
        yield Row(
            name=f"{group}/{name}",
            rooms=rooms,
            asked=asked,
            command=("-m", module, name),
            sources=sources,
            minutes=minutes,
            takes_share=True,
            seed=Seed("--seed"),
            writes_json=True,
            has_keep=True,
        )


def _crash() -> Iterator[Row]:
    yield from _figures("crash", "crash.figures", CRASH, CRASH_ABOUT.__getitem__)
    yield Row(
        name="crash/million-timers",
        rooms=("broker", "store", "timers"),
        asked="a million pending timers, 5,000 due a second: each is delivered although the broker is killed",
        command=("-m", "crash.million_timers"),
        sources=TIMERS,
        minutes=10,
        sizes=(Size("--count", 1_000_000, 10_000), Size("--lead-s", 200, 10)),
    )


def _replication() -> Iterator[Row]:
    sources = (*BROKER, "src/orbitmq/ha", "src/orbitmq/nameserver")
    yield Row(
        name="replication/kills",
        rooms=("broker", "store", "ha", "delivery", "timers", "pop", "transactions"),
        asked="50 kills -9 of a SYNC_MASTER, its slave or both under a mixed load: a promoted slave has all that was promised",
        command=("-m", "crash.replica_kills"),
        sources=sources,
        minutes=7,
        sizes=(Size("--rounds", 50, 2),),
        seed=Seed("--seed"),
    )
    yield Row(
        name="replication/adversary",
        rooms=("broker", "store", "ha", "hostile"),
        asked="strangers, old masters and forged reports on the port of slaves: no send is answered 0 that no slave has",
        command=("-m", "crash.replica_adversary"),
        sources=sources,
        minutes=3,
        takes_share=True,
        seed=Seed("--seed"),
    )


def _failover() -> Iterator[Row]:
    yield Row(
        name="failover/kills",
        rooms=("broker", "store", "ha", "controller", "raft", "client"),
        asked="members of a group of three are killed or stand still 50 times: nothing promised is lost, never two masters",
        command=("-m", "crash.failover_kills"),
        sources=(*BROKER, "src/orbitmq/ha", "src/orbitmq/controller", "src/orbitmq/raft", "src/orbitmq/nameserver"),
        minutes=6,
        sizes=(Size("--rounds", 50, 3),),
        seed=Seed("--seed"),
    )
    yield Row(
        name="failover/busy-core",
        rooms=("broker", "controller", "raft"),
        asked="a group of three under load next to a program that takes a core, ten minutes: no failover",
        command=("-m", "crash.failover_kills", "--only", "busy core"),
        sources=(*BROKER, "src/orbitmq/ha", "src/orbitmq/controller", "src/orbitmq/raft"),
        minutes=11,
        sizes=(Size("--rounds", 10, 1),),
        seed=Seed("--seed"),
    )
    yield Row(
        name="failover/cables",
        rooms=("broker", "store", "ha", "controller", "raft", "client"),
        asked="hosts of a group of three lose their cables, one way and both, 50 times: SEND_OK within p50 2 s, p99 3 s",
        command=("-m", "crash.failover_kills", "--hosts", "--p50-s", "2", "--p99-s", "3"),
        sources=(*BROKER, "src/orbitmq/ha", "src/orbitmq/controller", "src/orbitmq/raft", "src/orbitmq/client"),
        needs=("root",),
        minutes=7,
        sizes=(Size("--rounds", 50, 3),),
        seed=Seed("--seed"),
    )
    for name, kind, p50_s, p99_s in (
        ("failover/master-killed", "master", "0.5", "1"),
        ("failover/master-stands-still", "master stands still", "2", "3"),
    ):
        yield Row(
            name=name,
            rooms=("broker", "controller", "raft", "client"),
            asked=f"{kind}, 50 times under load: a producer's next SEND_OK within p50 {p50_s} s, p99 {p99_s} s",
            command=("-m", "crash.failover_kills", "--only", kind, "--p50-s", p50_s, "--p99-s", p99_s),
            sources=(*BROKER, "src/orbitmq/ha", "src/orbitmq/controller", "src/orbitmq/raft", "src/orbitmq/client"),
            minutes=7,
            sizes=(Size("--rounds", 50, 3),),
            seed=Seed("--seed"),
        )


def _hostile() -> Iterator[Row]:
    yield from _figures("hostile", "hostile.figures", HOSTILE, HOSTILE_ABOUT.__getitem__)

    def about(name: str) -> About:
        attack = first_sentence(ATTACKS[name])
        asked = f"honest clients of a broker keep their latency while others {attack[0].lower()}{attack[1:]}"
        return About(0.3, (*BROKER, "tests/hostile"), ("broker", "net"), asked)

    yield from _figures("hostile-broker", "hostile.broker_figures", ATTACKS, about)


def _clusters() -> Iterator[Row]:
    sources = (*NAMESERVER, "src/orbitmq/broker", "src/orbitmq/client", "tests/cluster")
    for name, cast, clients, needs, minutes in (
        ("failures", "ours", "our", ("root",), 12),
        ("failures-with-java", "java", "Java", ("peers",), 5),
    ):
        yield Row(
            name=f"cluster/{name}",
            rooms=("nameserver", "broker", "client"),
            asked=f"NameServers, brokers and networks fail under the load of {clients} clients: outcomes and durations within bounds",
            command=("-m", "cluster", "--cast", cast),
            sources=sources,
            needs=needs,
            minutes=minutes,
            when_small=("--quick",),
            has_keep=True,
        )


def _simulations() -> Iterator[Row]:
    yield Row(
        name="simulation/raft",
        rooms=("raft", "controller"),
        asked="2,000 simulated Raft groups under faults: no violation of Raft's claims",
        command=("-m", "raft"),
        sources=("src/orbitmq/raft", "tests/raft"),
        minutes=5,
        sizes=(Size("--seeds", 2_000),),
        seed=Seed("--first", 0),
    )
    yield Row(
        name="raft/differential",
        rooms=("controller",),
        asked="1,000,000 random steps of our Raft core and of etcd-io/raft: equal messages, states and logs",
        command=("-m", "raft.differential"),
        sources=("src/orbitmq/raft", "tests/raft"),
        needs=("go",),
        minutes=2,
        sizes=(Size("--steps", 1_000_000, 1_000),),
        seed=Seed("--seed", 1),
    )
    yield Row(
        name="simulation/failover",
        rooms=("ha", "controller", "broker"),
        asked="500 simulated groups with a controller under faults: nothing acknowledged or read is lost, and they heal",
        command=("-m", "failover"),
        sources=("src/orbitmq/ha", "src/orbitmq/controller", "tests/failover"),
        minutes=11,
        sizes=(Size("--seeds", 500),),
        seed=Seed("--first", 0),
    )
    yield Row(
        name="simulation/cluster",
        rooms=("broker", "nameserver", "client"),
        asked="200 simulated clusters under faults: no acknowledged message lost, all consumed",
        command=("-m", "simulation"),
        sources=(SOURCES, "tests/simulation"),
        minutes=5,
        sizes=(Size("--seeds", 200),),
        seed=Seed("--first", 0),
    )


def _comparisons() -> Iterator[Row]:
    nameserver = "100,000 random requests to Java's NameServer and ours: equal answers"
    broker = "100,000 random commands to Java's broker and ours: equal answers"
    admin = "100,000 random administrative commands to Java's broker and ours: equal answers"
    filters = "100,000 random SQL92 expressions and messages through Java's filter and ours: equal results"
    broker_sources = ("src/orbitmq/broker", "src/orbitmq/store", "src/orbitmq/wire", "tests/compat")
    compared: Iterable[tuple[str, str, str, str, tuple[str, ...], float]] = (
        ("nameserver", "compat.differential", "--commands", nameserver, (*NAMESERVER, "tests/compat"), 3),
        ("broker", "compat.broker", "--commands", broker, broker_sources, 10),
        ("admin", "compat.admin", "--commands", admin, broker_sources, 15),
        ("filters", "compat.filters", "--pairs", filters, ("src/orbitmq/filter", "tests/compat"), 1),
    )
    for name, module, option, asked, sources, minutes in compared:
        yield Row(
            name=f"compat/{name}",
            rooms=("java", "filter" if name == "filters" else name),
            asked=asked,
            command=("-m", module),
            sources=sources,
            needs=("peers",),
            minutes=minutes,
            sizes=(Size(option, 100_000, 100),),
            seed=Seed("--seed", 1),
        )
    commands = ("tests/interop/test_group_commands.py", "tests/interop/test_mqadmin_side_by_side.py")
    yield Row(
        name="compat/commands",
        rooms=("java", "broker", "admin"),
        asked="mqadmin's commands with Java's broker and ours, in all their forms: equal output",
        command=("-m", "pytest", "-q", "-m", "", *commands),  # no mark excluded
        sources=("src/orbitmq/broker", "src/orbitmq/nameserver", "src/orbitmq/wire", *commands),
        needs=("peers",),
        minutes=15,
        is_pytest=True,
        environment={"ORBITMQ_ALL_COMMANDS": "1"},
    )


def _versions() -> Iterator[Row]:
    for version in ("5.4.0", "5.5.0"):
        yield Row(
            name=f"interop/{version}",
            asked=f"what tests/interop and tests/compat say of Java's RocketMQ holds for {version}, too",
            command=("-m", "pytest", "-q", "-m", "interop and not proof", "tests/interop", "tests/compat"),
            sources=(SOURCES, "tests/interop", "tests/compat"),
            needs=("peers",),
            minutes=20,
            is_pytest=True,
            environment={"ORBITMQ_ROCKETMQ": version},
        )


def _others() -> Iterator[Row]:
    yield Row(
        name="nameserver/memory-proof",
        rooms=("nameserver",),
        asked="a million requests to a NameServer with its caches and to one without: equal answers",
        command=("-m", "memory_proof"),
        sources=("src/orbitmq/nameserver", "src/orbitmq/wire", "tests/memory_proof"),
        minutes=5,
        sizes=(Size("--requests", 1_000_000, 1_000), Size("--seeds", 30)),
        seed=Seed("--first-seed", 1),
    )
    yield Row(
        name="spark/exactly-once",
        rooms=("client", "transactions"),
        asked="2,000,000 rows of a Spark stream into a topic, driver and workers killed 40 times: 0 lost, 0 repeated",
        command=("-m", "spark.kills"),
        sources=("src/orbitmq/spark", "src/pyspark_rocketmq", "tests/spark"),
        needs=("java",),
        minutes=30,
        sizes=(Size("--rows", 2_000_000, 10_000), Size("--kills", 40)),
        seed=Seed("--seed", 7),
        has_keep=True,
    )
    yield Row(
        name="spark/versions",
        rooms=("client", "java", "spark-versions"),
        asked="the Spark tests pass on Spark 4.0, 4.1, 4.2 and 4.3, each in an environment of its own",
        command=("-m", "spark.versions"),
        sources=("src/orbitmq/spark", "src/pyspark_rocketmq", "tests/spark", "tests/unit/spark"),
        needs=("java",),
        minutes=40,
    )
    yield Row(
        name="pythons/tests",
        rooms=("peers", "java"),
        asked="make test passes on Python 3.12, 3.13 and 3.14, in a fresh clone each, where they are on the machine",
        command=("-m", "proof.other_pythons"),
        sources=("src", "pyproject.toml", "constraints.txt"),
        needs=("peers",),
        minutes=60,
    )
    yield Row(
        name="mutants/sample",
        rooms=("unit",),
        asked="200 random changes of the source: unit tests notice 90 % of them",
        command=("-m", "mutants"),
        sources=("src/orbitmq", "tests/unit", "tests/mutants"),
        minutes=30,
        sizes=(Size("--sample", 200),),
        seed=Seed("--seed"),
    )
    yield Row(
        name="bench/bars",
        rooms=("benchmarks", "java"),
        asked="every row of the benchmarks with a bar reaches it, next to Java on the same core",
        command=("-m", "benchmarks", "--bars"),
        sources=(SOURCES, "benchmarks", "tests/crash/million_timers.py"),
        needs=("compiler", "peers"),
        minutes=90,
        when_small=("--quick",),
        writes_json=True,
        has_keep=True,
    )
