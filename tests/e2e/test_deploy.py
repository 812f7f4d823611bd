"""The files of deploy/: units of systemd, the container's compose file, manifests of Kubernetes. What they run is parsed by our command line."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml

from cases import each_case
from orbitmq.broker.settings.file import check_keys
from orbitmq.cli.main import make_app
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.settings import fields_by_key, read_properties

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes/cluster.yaml").read_text()))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "container/compose.yaml").read_text())

pytestmark = pytest.mark.real


def parse(words: list[str]) -> str:
    """Parse a command line of ours without running it; return its command.

    Raises:
        Exception: an option is unknown, or a value is none.
    """
    program: Any = typer.main.get_command(make_app())
    there = str(DEPLOY / "container/broker.conf")  # stands for the files of the machine that it is meant for
    given = [there if word.startswith("/etc/orbitmq/") else word for word in words]
    name, step, left = program.resolve_command(program.context_class(program), given)
    context = step.context_class(step, info_name=name)
    step.parse_args(context, list(left))
    return str(name)


def test_units_are_valid_and_run_commands_that_there_are() -> None:
    assert len(UNITS) == 5
    for unit in UNITS:
        (line,) = re.findall(r"^ExecStart=/opt/orbitmq/bin/orbitmq (.*)$", unit.read_text(), re.MULTILINE)
        assert unit.name == f"orbitmq-{parse(shlex.split(line))}.service"
        assert "NoNewPrivileges=yes" in unit.read_text()


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd here: its own check of units is left out"
)
def test_systemd_finds_nothing_wrong_in_the_units() -> None:
    command = ["systemd-analyze", "verify", "--man=no", *map(str, UNITS)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    # Neither the program nor the user is on this machine.
    assert [line for line in said.splitlines() if "orbitmq" in line and "is not executable" not in line] == []


@each_case(*MANIFESTS)
def test_manifests_are_valid(manifest: dict[str, Any]) -> None:
    for version in ("1.30", "1.37"):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schemas_would_find_a_wrong_field() -> None:
    wrong = {**MANIFESTS[0], "spec": {"ports": "9876"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def containers() -> dict[str, dict[str, Any]]:
    sets = [manifest for manifest in MANIFESTS if manifest["kind"] == "StatefulSet"]
    return {found["metadata"]["name"]: found["spec"]["template"]["spec"]["containers"][0] for found in sets}


def test_what_containers_run_is_parsed_by_the_command_line() -> None:
    found = containers()
    assert parse(found["orbitmq-nameserver"]["args"]) == "nameserver"
    (line,) = found["orbitmq-broker"]["args"]
    assert parse(shlex.split(line.removeprefix("exec orbitmq "))) == "broker"
    for service in COMPOSE["services"].values():
        parse([str(word) for word in service["command"]])
    last = (DEPLOY / "container/Containerfile").read_text().rstrip().splitlines()[-1]
    assert parse(yaml.safe_load(last.removeprefix("CMD "))) == "up"


def test_probes_ask_the_port_that_the_command_opens() -> None:
    for container in containers().values():
        (port,) = (found["containerPort"] for found in container["ports"] if found["name"] == "metrics")
        assert f"--metrics-port {port}" in " ".join(map(str, container["args"]))
        assert {container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("readiness", "liveness")} == {"metrics"}


def test_settings_are_those_of_the_servers(tmp_path: Path) -> None:
    (config,) = (manifest["data"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    broker = tmp_path / "broker.conf"
    broker.write_text(config["broker.conf"])
    check_keys(broker, strict=True)
    check_keys(DEPLOY / "container/broker.conf", strict=True)
    name_server = tmp_path / "namesrv.conf"
    name_server.write_text(config["namesrv.conf"])
    assert read_properties(name_server).keys() <= fields_by_key(NameServerConfig).keys()


def test_a_group_waits_for_its_majority_and_survives_one_eviction() -> None:
    budgets = {
        found["metadata"]["name"]: found["spec"] for found in MANIFESTS if found["kind"] == "PodDisruptionBudget"
    }
    sets = {found["metadata"]["name"]: found["spec"] for found in MANIFESTS if found["kind"] == "StatefulSet"}
    assert budgets.keys() == sets.keys()
    for name, spec in sets.items():
        assert budgets[name]["maxUnavailable"] == 1
        assert spec["podManagementPolicy"] == "Parallel"
        assert budgets[name]["selector"] == spec["selector"]
