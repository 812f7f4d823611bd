"""`orbitmq up --brokers 3`, killed by hand as README says; the long form is the row `failover/kills` of the proof."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.test_cli import ORBITMQ, run_command, serving
from orbitmq.admin.client import AdminClient
from orbitmq.broker.registration.addresses import kept_port
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
        assert members[first] == server.ready["leader"]
        os.kill(process_of(tmp_path, members[first]), signal.SIGKILL)
        assert run_command("send", "orders", "after", name_servers=name_servers).returncode == 0
        assert (await members_of(name_servers)).get(0, first) != first
        consumed = run_command("consume", "orders", name_servers=name_servers).stdout.splitlines()
        assert sorted(consumed) == ["after", "before 0", "before 1", "before 2"]
        await until(lambda: _are_three(name_servers), 0.1)
        code, said = server.end()
        assert code == 0
        assert f"{members[first]} has ended (SIGKILL)" in said


async def _are_three(name_servers: str) -> bool:
    members = await members_of(name_servers)
    return 0 in members and len(members) == 3


async def test_the_brokers_of_a_group_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    with serving("up", *BROKERS, tmp_path) as server:
        processes = [process_of(tmp_path, f"broker-a-{number}") for number in (1, 2, 3)]
        server.end(signal.SIGKILL)
        await until(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))


@pytest.mark.interop
async def test_status_names_the_controllers_that_are_missing_and_what_that_means(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ports = [stack.enter_context(kept_port("127.0.0.1", 0)).getsockname()[1] for _ in range(3)]
        peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(ports))
        common = ("controller", "--host", "127.0.0.1", "--peers", peers, "-o", "json")
        running = [
            stack.enter_context(serving(*common, "--name", f"n{number}", "--data-dir", tmp_path / str(number)))
            for number in range(3)
        ]

        def status() -> tuple[int, str]:
            found = run_command("controller", "status", "-a", f"127.0.0.1:{ports[0]}", name_servers="127.0.0.1:1")
            return found.returncode, found.stderr

        await until(lambda: status() == (0, ""))
        running[2].end()
        code, said = await until(lambda: "controller_missing" in (found := status())[1] and found)
        assert code == 1
        assert f"controller 127.0.0.1:{ports[2]}: does not answer" in said
        assert f"controller_missing: no answer from the controller n2 (127.0.0.1:{ports[2]}) since 2" in said
        assert "2 of 3 are there, one more and no master can be elected; start it again" in said
        running[1].end()
        code, said = await until(lambda: "no_leader" in (found := status())[1] and found)
        assert (code, "('" in said) == (1, False)
        assert "1 of 3 are there, no master can be elected before more are there; start it again" in said
        running[0].end()
        code, said = status()
        assert (code, "no answer" in said or "does not answer" in said) == (3, True)


CONF = """brokerClusterName=production
brokerName=broker-a
namesrvAddr={name_server}
bindAddress=127.0.0.1
brokerIP1=127.0.0.1
listenPort=0
mappedFileSizeCommitLog=67108864
storePathRootDir={root}
enableDLegerCommitLog=true
dLegerPeers={peers}
dLegerSelfId={name}
"""


@pytest.mark.interop
async def test_a_machine_that_is_lost_for_good_is_replaced_as_the_page_says(tmp_path: Path) -> None:
    with ExitStack() as stack:
        name_server = stack.enter_context(serving("nameserver", "--host", "127.0.0.1", "--port", 0, "-o", "json"))
        name_servers = name_server.ready["nameserver"]
        ports = {f"n{number}": stack.enter_context(kept_port("127.0.0.1", 0)).getsockname()[1] for number in range(3)}
        peers = ";".join(f"{name}-127.0.0.1:{port}" for name, port in ports.items())
        running: dict[str, subprocess.Popen[bytes]] = {}

        def start(name: str) -> None:
            conf = tmp_path / f"{name}.conf"
            conf.write_text(CONF.format(name_server=name_servers, root=tmp_path / name, peers=peers, name=name))
            # It is ready when a majority is there.
            process = subprocess.Popen(
                [*ORBITMQ, "broker", "-c", str(conf)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            running[name] = stack.enter_context(process)
            stack.callback(process.kill)

        def end(name: str, number: int = signal.SIGTERM) -> None:
            running[name].send_signal(number)
            running[name].wait(timeout=60)

        def rows() -> list[dict[str, Any]]:
            return list(json.loads(run_command("cluster", "-o", "json", name_servers=name_servers).stdout or "[]"))

        def is_whole() -> bool:
            found = rows()
            return sorted(row["id"] == 0 for row in found) == [False, False, True] and all(
                row["in_sync"] for row in found
            )

        def is_led(name: str) -> bool:
            return (
                "#ControllerLeaderId\tn"
                in run_command("mqadmin", "getControllerMetaData", "-a", f"127.0.0.1:{ports[name]}").stdout
            )

        for name in ports:
            start(name)
        await until(is_whole)
        assert run_command("send", "orders", "before", name_servers=name_servers).returncode == 0
        end("n2", signal.SIGKILL)
        (tmp_path / "n2").rename(tmp_path / "lost")
        for name in ("n1", "n0"):
            end(name)
            (tmp_path / name / "controller" / f"raft-{name}" / "peers.json").unlink()
            start(name)
            await until(partial(is_led, name))
        start("n2")
        await until(is_whole)
        controller = f"127.0.0.1:{ports['n2']}"
        members = json.loads(
            run_command("controller", "status", "-a", controller, "-o", "json", name_servers=name_servers).stdout
        )
        (gone,) = (member["id"] for member in members if not member["alive"])
        clean = ("cleanBrokerMetadata", "-a", controller, "-bn", "broker-a", "-c", "production", "-b", gone)
        assert run_command("mqadmin", *clean).returncode == 0

        def status() -> tuple[int, str]:
            found = run_command("controller", "status", "-a", controller, name_servers=name_servers)
            return found.returncode, found.stderr

        await until(lambda: status() == (0, ""))  # a refusal while the others started is named for ten seconds more
        end("n0", signal.SIGKILL)
        assert run_command("send", "orders", "after", name_servers=name_servers).returncode == 0
        consumed = run_command("consume", "orders", name_servers=name_servers).stdout.splitlines()
        assert sorted(consumed) == ["after", "before"]
