"""Figures, alerts and health of a controller."""

import re
from pathlib import Path

import pytest

from orbitmq.controller.handlers import handlers
from orbitmq.controller.monitoring import ControllerMetrics, ControllerMonitor
from orbitmq.controller.values import CommandResult
from orbitmq.net.server import Server
from promtool import check_rules
from unit.controller.talk import Talk

RULES = Path(__file__).parents[3] / "deploy" / "prometheus"


def test_elections_are_counted_by_their_ends_under_javas_names():
    monitor = ControllerMonitor()
    for code in (0, 2011, 2004, 2012, 0):
        monitor.note(CommandResult(code))
    assert monitor.elections == {"new_master_elected": 2, "keep_current_master": 1, "no_master_elected": 2}


async def test_a_group_without_a_master_is_an_alert_at_the_leader(caplog):
    talk, monitor = Talk(), ControllerMonitor()
    await talk.led(1)
    assert monitor.health(talk.service)["alerts"] == []
    await talk.join(2)
    outside = {"rule": "out_of_sync", "reason": "members without all messages: 2 of orders", "severity": "warning"}
    assert monitor.health(talk.service)["alerts"] == [outside]
    talk.service.disconnect(1)
    await talk.settle()
    document = monitor.health(talk.service)
    assert document["groupsWithoutMaster"] == ["orders"]
    reason = "no master for orders: member 1 (10.0.0.1:1) of its sync set is waited for"
    assert document["alerts"] == [{"rule": "no_master", "reason": reason}]
    assert (document["healthy"], document["groupNames"]) == (False, ["orders"])
    assert "alert no_master" in caplog.text


async def test_a_group_whose_members_are_all_gone_has_no_master():
    talk, monitor = Talk(), ControllerMonitor()
    await talk.led(1)
    talk.service.disconnect(1)
    assert monitor.health(talk.service)["groupsWithoutMaster"] == ["orders"]


def test_without_a_leader_a_controller_is_not_ready():
    talk, monitor = Talk(), ControllerMonitor()
    talk.consensus.lead(False)
    document = monitor.health(talk.service)
    assert (document["ready"], document["notReady"]) == (False, ["no controller leads"])
    assert [alert["rule"] for alert in document["alerts"]] == ["no_leader"]


async def test_the_figures_have_names():
    talk, monitor = Talk(), ControllerMonitor()
    await talk.led(1)
    monitor.note(CommandResult())
    server = Server(handlers, talk.service, name="controller")
    found = {family.name: family for family in ControllerMetrics(server, talk.service, monitor).collect()}
    values = {name: found[f"rocketmq_controller_{name}"].samples[0].value for name in ("leader", "brokers_alive")}
    assert values == {"leader": 1, "brokers_alive": 1}
    assert found["rocketmq_controller_groups_without_master"].samples[0].value == 0
    assert found["rocketmq_controller_elections"].samples[0].labels == {"election_result": "new_master_elected"}
    assert found["rocketmq_controller_members_out_of_sync"].samples[0].value == 0
    assert "rocketmq_controller_alert" in found


@pytest.mark.real
def test_the_rules_for_prometheus_do_what_their_scenarios_say():
    check_rules(RULES / "controller.rules.test.yml")


@pytest.mark.real
def test_a_rule_that_is_never_told_does_not_pass(tmp_path):
    for name in ("controller.rules.yml", "controller.rules.test.yml"):
        text = (RULES / name).read_text()
        (tmp_path / name).write_text(text.replace("members_out_of_sync > 0", "members_out_of_sync > 5"))
    with pytest.raises(AssertionError):
        check_rules(tmp_path / "controller.rules.test.yml")


def test_the_rules_name_metrics_that_there_are():
    rules = (RULES / "controller.rules.yml").read_text()
    page = (RULES.parents[1] / "docs" / "reference" / "controller.md").read_text()
    brokers = (RULES.parents[1] / "docs" / "reference" / "broker.md").read_text()
    for name in set(re.findall(r"rocketmq_controller_(\w+)", rules)):
        assert f"`{name}`" in page, name
    for name in set(re.findall(r"rocketmq_broker_\w+", rules)):
        assert name in brokers, name
