"""`orbitmq up --brokers 3`, killed by hand as README says; the long form is the row `failover/kills` of the proof."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from e2e.test_cli import run_command, serving
from orbitmq.admin.client import AdminClient
from waiting import until

BROKERS = ("--brokers", 3, "--nameserver-port", 0, "--broker-port", 0, "-o", "json", "--data-dir")


async def members_of(name_servers: str) -> Mapping[int, str]:
    """The addresses of the brokers that NameServers know, by their ids; the master's is 0."""
    async with AdminClient(name_servers) as admin:
        brokers = (await admin.cluster_info()).brokers
        return brokers["broker-a"].addresses if "broker-a" in brokers else {}


def process_of(data_dir: Path, member: str) -> int:
    """The process that runs with a member's settings."""
    wanted = str(data_dir / member / "broker.conf").encode()
    for entry in Path("/proc").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # others come and go
            if entry.name.isdigit() and wanted in (entry / "cmdline").read_bytes().split(b"\0"):
                return int(entry.name)
    raise AssertionError(f"no process of {member}")


async def test_a_group_goes_on_when_its_master_is_killed_and_takes_it_back(tmp_path: Path) -> None:
    with serving("up", *BROKERS, tmp_path) as server:
        name_servers = server.name_servers
        members = {address: name for name, address in server.ready.items() if name.startswith("broker-a-")}
        assert len(members) == 3
        for number in range(3):
            assert run_command("send", "orders", f"before {number}", name_servers=name_servers).returncode == 0
        first = (await members_of(name_servers))[0]
        os.kill(process_of(tmp_path, members[first]), signal.SIGKILL)
        assert run_command("send", "orders", "after", name_servers=name_servers).returncode == 0
        assert (await members_of(name_servers)).get(0, first) != first
        consumed = run_command("consume", "orders", name_servers=name_servers).stdout.splitlines()
        assert sorted(consumed) == ["after", "before 0", "before 1", "before 2"]
        await until(lambda: _are_three(name_servers), 0.1)
        code, said = server.end()
        assert code == 0
        assert f"{members[first]} has ended (-9)" in said


async def _are_three(name_servers: str) -> bool:
    members = await members_of(name_servers)
    return 0 in members and len(members) == 3


async def test_the_brokers_of_a_group_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    with serving("up", *BROKERS, tmp_path) as server:
        processes = [process_of(tmp_path, f"broker-a-{number}") for number in (1, 2, 3)]
        server.end(signal.SIGKILL)
        await until(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))
