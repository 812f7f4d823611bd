"""Outages that operators fear of NameServers, at a short pace. Outcomes are looked at, durations are `python -m cluster`'s."""

import pytest

from cluster.scenarios import SCENARIOS
from cluster.stage import QUICK, Stage

OURS = [scenario for scenario in SCENARIOS if "ours" in scenario.casts]
JAVA = [scenario for scenario in SCENARIOS if "java" in scenario.casts]


SHORT = {
    "a_broker_that_is_killed_leaves_the_routes_with_its_connection",
    "a_silent_broker_leaves_the_routes_when_its_lease_ends",
}
"""Scenarios of `make test`, a kind of failure each; `make proof` plays all others, too."""


def name(scenario):
    return scenario.name


def short(scenario):
    """Leave all but the short scenarios to `make proof`."""
    return scenario if scenario.name in SHORT else pytest.param(scenario, marks=pytest.mark.proof)


async def play(scenario, stage):
    await scenario.play(stage)
    assert [finding for finding in stage.findings if not finding.is_reached and not finding.is_time] == []


@pytest.mark.parametrize("scenario", [short(scenario) for scenario in OURS if not scenario.has_hosts], ids=name)
async def test_on_one_host(scenario, tmp_path):
    await play(scenario, Stage(tmp_path, QUICK))


@pytest.mark.parametrize("scenario", [short(scenario) for scenario in OURS if scenario.has_hosts], ids=name)
async def test_on_several_hosts(scenario, tmp_path, can_make_hosts):
    await play(scenario, Stage(tmp_path, QUICK))


@pytest.mark.proof
@pytest.mark.java
@pytest.mark.parametrize("scenario", JAVA, ids=name)
async def test_with_a_java_broker_and_java_clients(scenario, tmp_path, jars):
    await play(scenario, Stage(tmp_path, QUICK, "java"))
