"""Outages that operators fear of NameServers, at a short pace. Outcomes are looked at, durations are `python -m cluster`'s."""

import pytest

from cluster.scenarios import SCENARIOS
from cluster.stage import QUICK, Stage

OURS = [scenario for scenario in SCENARIOS if "ours" in scenario.casts]
JAVA = [scenario for scenario in SCENARIOS if "java" in scenario.casts]


LONG = {"a_name_server_that_pauses_loses_no_broker_that_lives"}
"""Scenarios that `make proof` alone plays: their pauses are long."""


def name(scenario):
    return scenario.name


def short(scenario):
    """Leave a long scenario to `make proof`."""
    return pytest.param(scenario, marks=pytest.mark.proof) if scenario.name in LONG else scenario


async def play(scenario, stage):
    await scenario.play(stage)
    assert [finding for finding in stage.findings if not finding.is_reached and not finding.is_time] == []


@pytest.mark.parametrize("scenario", [short(scenario) for scenario in OURS if not scenario.has_hosts], ids=name)
async def test_on_one_host(scenario, tmp_path):
    await play(scenario, Stage(tmp_path, QUICK))


@pytest.mark.parametrize("scenario", [scenario for scenario in OURS if scenario.has_hosts], ids=name)
async def test_on_several_hosts(scenario, tmp_path, can_make_hosts):
    await play(scenario, Stage(tmp_path, QUICK))


@pytest.mark.proof
@pytest.mark.java
@pytest.mark.parametrize("scenario", JAVA, ids=name)
async def test_with_a_java_broker_and_java_clients(scenario, tmp_path, jars):
    await play(scenario, Stage(tmp_path, QUICK, "java"))
