"""Forged requests: those of known attacks, every code by every user, names that mean something elsewhere.

They are few enough to be complete: tests and `make proof` do the same.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tempfile
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from hostile.figure import Figure, Size
from orbitmq.model.route import QueueData, TopicRoute
from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.config import WITHOUT_EFFECT, NameServerConfig
from orbitmq.nameserver.handlers import handlers
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies.registration import encode_registration
from orbitmq.wire.bodies.route import encode_route
from orbitmq.wire.header import request_type
from orbitmq.wire.headers import (
    DeleteTopicInNameServer,
    GetNameServerConfig,
    PutKvConfig,
    RegisterTopicInNameServer,
    UpdateNameServerConfig,
)
from unit.nameserver.support import Asker, asking, registration
from unit.net.accounts import ADMIN, FORGER, READER, STRANGER, WRITER, write_accounts

_TABLE = Path(__file__).parents[2] / "docs" / "howto" / "secure-the-nameserver.md"
_UPDATE_BROKER_CONFIG = 25
NO_PERMISSION, ILLEGAL, UNSUPPORTED = 16, 1, 3

NAMES = (
    "../../etc/passwd", "/etc/passwd", "..\\..\\boot.ini", "$(reboot)", "`reboot`", "; reboot", "| reboot", "a\nb",
    "a\r\nSet-Cookie: x", "a\x00b", "\x1b[31m", "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE topics; --", "{{7*7}}", "${jndi:ldap://x/y}", "名", "\u202e", " ", "", "x" * 256,
)  # fmt: skip
"""Names that mean something to a path, a shell, a terminal, a page, a log or a query."""


class Found(NamedTuple):
    """How many requests were made, and what was wrong with their answers."""

    request_count: int
    wrong: list[str]


async def enter_names(folder: Path, names: tuple[str, ...] = NAMES) -> Found:
    """Try every name at every entry of a NameServer; none may be in its tables afterwards."""
    count, wrong = 0, list[str]()
    async with asking(folder) as asker:

        async def refused(what: str, header: object, body: bytes = b"") -> None:
            nonlocal count
            count += 1
            answer = await asker.ask(header, body)
            if answer.code != ILLEGAL:
                wrong.append(f"{what}: {answer.code}")

        for name in names:
            await refused(f"broker {name!r}", *registration(name, "T1", "T2"))
            for field in ("cluster_name", "broker_addr"):
                named: dict[str, Any] = {field: name}
                await refused(f"{field} {name!r}", *registration("a", "T1", "T2", **named))
            await refused(f"topic {name!r}", RegisterTopicInNameServer(topic=name), b"{}")
            route = TopicRoute(queues=(QueueData(broker_name=name, read_queue_count=1, write_queue_count=1, perm=6),))
            await asker.ask(RegisterTopicInNameServer(topic="T3"), encode_route(route))
            await asker.register("a", "T1", "T2", name)
            await asker.ask(DeleteTopicInNameServer(topic=name))
            count += 3
            if (entered := set(asker.server.service.tables.topics())) != {"T1", "T2"}:
                wrong.append(f"topics {entered}")
    return Found(count, wrong)


def needs_by_code(*, covers_registration: bool) -> dict[int, str]:
    """Read from the documentation's table which role each request code needs: nothing, reader or admin."""
    _, _, table = _TABLE.read_text(encoding="utf-8").partition("| needs | requests to a NameServer |\n")
    needs: dict[int, str] = {}
    for line in table.partition("\n\n")[0].splitlines()[1:]:
        _, role, text, _ = (cell.strip() for cell in line.split("|"))
        if "," in role:
            role = "admin" if covers_registration else "nothing"
        for numbers in re.findall(r"\(([0-9, to]+)\)", text):
            for part in numbers.split(", "):
                first, _, last = part.partition(" to ")
                needs |= dict.fromkeys(range(int(first), int(last or first) + 1), role)
    return needs


async def walk_matrix(folder: Path, *, covers_registration: bool) -> Found:
    """Ask for every code without a signature, with wrong ones, and as each role."""
    needs = needs_by_code(covers_registration=covers_registration)
    wrong = [f"{code} is not in the table" for code in handlers.codes if code not in needs]
    wrong += [f"{code} is in the table, and nobody answers it" for code in needs if code not in handlers.codes]
    accounts = write_accounts(folder)
    allowed_by = {
        "nothing": ("nobody", "forger", "stranger", "reader", "writer", "admin"),
        "reader": ("reader", "writer", "admin"),
        "admin": ("admin",),
    }
    who = {"nobody": None, "forger": FORGER, "stranger": STRANGER, "reader": READER, "writer": WRITER, "admin": ADMIN}
    count = 0
    async with asking(folder, acl_enable=True, acl_file=accounts, acl_registration=covers_registration) as asker:
        for name, credentials in who.items():
            pool = ConnectionPool(credentials=credentials)
            for code, role in sorted(needs.items()):
                answer = await pool.request(asker.server.address, whole_header(code), code=code)
                count += 1
                if (answer.code == NO_PERMISSION) is (name in allowed_by[role]):
                    wrong.append(f"{code} by {name}: {answer.code} {answer.remark}")
            await pool.close()
    return Found(count, wrong)


def whole_header(code: int) -> object:
    """Return a header of a request code with every field that it must have."""
    kind = request_type(code)
    assert kind is not None
    types = typing.get_type_hints(kind)
    fields: dict[str, Any] = {
        field.name: "x" if types[field.name] is str else 0
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING
    }
    return kind(**fields)


VALUES = ("; touch owned", "`touch owned`", "$(touch owned)", "../../owned", "/tmp/owned", "1\\nkvConfigPath=owned")


def attacks(outside: Path) -> Iterator[tuple[str, object, int | None, bytes, tuple[int, ...]]]:
    """Yield what, header, code, body and the codes that refuse it, for each request of a known attack."""
    update, refusals = UpdateNameServerConfig(), (NO_PERMISSION, ILLEGAL)
    owned = outside / "owned"
    shell = f"filterServerNums=1\nrocketmqHome=-c $@|sh . echo touch {owned};\n".encode()
    yield "CVE-2023-33246 to the NameServer", update, None, shell, refusals
    yield "CVE-2023-33246 as sent to brokers", update, _UPDATE_BROKER_CONFIG, shell, (UNSUPPORTED,)
    for key in ("configStorePath", "configStorePathName", "kvConfigPath", "config\\u0053torePath", "rocketmqHome"):
        body = f"{key}={owned}\nproductEnvName=a\\n* * * * * root touch {owned}\n".encode()
        yield f"CVE-2023-37582 by {key}", update, None, body, refusals
    for name in ("../../../owned", f"{owned}", "..%2f..%2fowned", "a/../../owned"):
        yield f"CVE-2019-17572 {name}", RegisterTopicInNameServer(topic=name), None, b"{}", refusals
        yield f"CVE-2019-17572 broker {name}", *registration(name, "T1", "T2")[:1], None, _TOPICS, refusals
    for key in sorted(NameServerConfig().to_properties().keys() | WITHOUT_EFFECT):
        for value in VALUES:
            yield f"{key}={value}", update, None, f"{key}={value}".encode(), refusals
        yield f"newline before {key}", update, None, f"enableTopicList=true\\n{key}={owned}\n".encode(), refusals


_TOPICS = encode_registration(DataVersion(0, 0, 1), {})


async def replay_attacks(folder: Path) -> Found:
    """Make the requests of known attacks; the file tree around the data folder must not change."""
    data, outside = folder / "data", folder / "outside"
    for path in (data, outside / "home" / "store", outside / "work"):
        path.mkdir(parents=True)
    (outside / "canary").write_text("sings")
    count, wrong = 0, list[str]()
    with _living_in(outside):
        before = _tree(outside)
        async with asking(data) as asker:
            config = asker.server.service.config
            for what, header, code, body, refusals in attacks(outside):
                answer = await asker.pool.request(asker.server.address, header, body, code=code)
                count += 1
                if answer.code not in refusals:
                    wrong.append(f"{what}: {answer.code} {answer.remark}")
            # What may be stored is data, whatever it looks like: it stays in the one file.
            for text in ("../../owned", "$(touch owned)"):
                await asker.ask(PutKvConfig(namespace=text, key=text, value=text))
                count += 1
            if asker.server.service.config != config:
                wrong.append("settings have changed")
            wrong += await _others_than(asker, config)
        if _tree(outside) != before:
            wrong.append(f"the tree outside has changed: {sorted(_tree(outside).keys() ^ before.keys())}")
    if {path.name for path in data.iterdir()} - {"kvConfig.json", "kvConfig.json.bak"}:
        wrong.append(f"files in the data folder: {sorted(path.name for path in data.iterdir())}")
    if children := psutil.Process().children():
        wrong += [f"a process was started: {child.name()}" for child in children if child.name() in ("sh", "touch")]
    return Found(count, wrong)


async def _others_than(asker: Asker, config: NameServerConfig) -> list[str]:
    listed = (await asker.ask(GetNameServerConfig())).body.decode().splitlines()
    return [line for line in listed if line not in {f"{key}={value}" for key, value in config.to_properties().items()}]


@contextmanager
def _living_in(folder: Path) -> Iterator[None]:
    """Make a folder the working directory and the home, where relative paths and `~` lead."""
    home, work = os.environ.get("HOME"), Path.cwd()
    os.environ["HOME"] = str(folder / "home")
    os.chdir(folder / "work")
    try:
        yield
    finally:
        os.chdir(work)
        if home is not None:
            os.environ["HOME"] = home


def _tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
        for path in [folder, *folder.rglob("*")]
    }


def known_attacks(_size: Size) -> Figure:
    """Make the requests of known attacks, as a figure."""
    with tempfile.TemporaryDirectory() as folder:
        found = run(replay_attacks(Path(folder)))
    return Figure(
        asked="requests of CVE-2023-33246, -37582, 2019-17572 and every setting with shell and path characters: refused, "
        "file tree outside the data folder unchanged",
        measured=f"{found.request_count} requests, {len(found.wrong)} not refused or with an effect",
        reached=not found.wrong,
    )


def request_matrix(_size: Size) -> Figure:
    """Ask for every code as every user, as a figure."""
    count, wrong = 0, list[str]()
    for covers_registration in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            found = run(walk_matrix(Path(folder), covers_registration=covers_registration))
        count, wrong = count + found.request_count, wrong + found.wrong
    return Figure(
        asked="every request code without credentials, with bad signatures, as reader, writer, admin: as documented",
        measured=f"{len(handlers.codes)} codes, {count} requests, {len(wrong)} answers not as documented",
        reached=not wrong,
    )


def names_at_every_entry(_size: Size) -> Figure:
    """Enter strange names everywhere, as a figure."""
    with tempfile.TemporaryDirectory() as folder:
        found = run(enter_names(Path(folder)))
    return Figure(
        asked="names outside the alphabet at every entry: refused everywhere",
        measured=f"{len(NAMES)} names, {found.request_count} requests, {len(found.wrong)} entered",
        reached=not found.wrong,
    )
