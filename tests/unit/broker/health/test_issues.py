"""Claims about what makes a broker unhealthy or unready; the rules for Prometheus say the same (promtool is asked)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.broker.health.issues import READ_ONLY, RULES, BrokerAlertRule, BrokerState
from orbitmq.broker.replication.group_members import GroupMembers
from orbitmq.store import StoreIssue, StoreIssueKind
from orbitmq.wire.bodies.controller import BrokerMember
from promtool import check_rules

PROMETHEUS = Path(__file__).parents[4] / "deploy" / "prometheus"
PROMETHEUS_ONLY = {
    "RocketmqBrokerFewDescriptors", "RocketmqBrokerMemoryHigh", "RocketmqBrokerCollectsOrLags", "RocketmqBrokerGroupLags",
    "RocketmqBrokerGroupLate",
    "RocketmqBrokerRefusesSends", "RocketmqBrokerDeadLetters",
}  # fmt: skip


def rules_of(**known: object) -> list[str]:
    return [alert.rule for alert in BrokerState(**known).alerts()]  # type: ignore[arg-type]


def test_a_broker_of_which_nothing_is_known_is_healthy_and_ready() -> None:
    quiet = BrokerState()
    assert [*quiet.alerts(), *quiet.warnings(), *quiet.unready()] == []


@each_case(*StoreIssueKind)
def test_an_issue_of_the_store_is_an_alert_or_a_warning_with_its_reason(kind: StoreIssueKind) -> None:
    situation = BrokerState(issues=[StoreIssue(kind, "because")])
    alerts = [(alert.rule, alert.reason) for alert in situation.alerts()]
    assert alerts == ([(RULES[kind], "because")] if kind in RULES else [])
    assert list(situation.warnings()) == ([] if kind in RULES else ["because"])
    assert list(situation.unready()) == (["because"] if kind in READ_ONLY else [])


def test_a_broker_that_waits_for_a_busy_disk_stays_ready() -> None:
    assert StoreIssueKind.BUSY not in READ_ONLY
    assert {StoreIssueKind.FENCED, StoreIssueKind.DISK_FULL} <= READ_ONLY


@each_case((None, False), (0.8, False), (0.801, True))
def test_a_disk_may_be_used_up_to_a_share(ratio: float | None, holds: bool) -> None:
    assert rules_of(disk_used_ratio=ratio, disk_ratio_max=0.8) == ([BrokerAlertRule.DISK_NEARLY_FULL] if holds else [])


def test_a_broker_that_reaches_no_name_server_is_not_healthy_and_one_that_reaches_some_says_which_it_does_not() -> None:
    both = ("a:1", "b:1")
    lost = BrokerState(name_servers=both, unreachable=both)
    assert [alert.reason for alert in lost.alerts()] == ["no NameServer can be reached: a:1, b:1"]
    assert list(lost.warnings()) == []
    half = BrokerState(name_servers=both, told=("a:1",), unreachable=("b:1",))
    assert list(half.alerts()) == []
    assert list(half.warnings()) == ["NameServers cannot be reached: b:1"]
    wrong = BrokerState(announced_failure="clients are told a:1, which cannot be reached")
    assert (list(wrong.alerts()), list(wrong.warnings())) == ([], ["clients are told a:1, which cannot be reached"])


def test_a_broker_whose_list_of_name_servers_cannot_be_read_says_so_and_is_not_healthy_when_it_knows_none() -> None:
    known = BrokerState(name_servers=("a:1",), told=("a:1",), list_failure="no file")
    assert (list(known.alerts()), list(known.unready())) == ([], [])
    assert list(known.warnings()) == ["the list of NameServers cannot be read, the last one stays in use: no file"]
    none = BrokerState(list_failure="no file")
    said = ["no NameServer is known, the list of NameServers cannot be read: no file"]
    assert ([alert.reason for alert in none.alerts()], list(none.unready())) == (said, said)


@each_case((2, BrokerAlertRule.MEMBER_MISSING), (1, BrokerAlertRule.FEW_MEMBERS))
def test_a_missing_member_is_a_warning_and_one_member_alone_an_error(alive: int, rule: str) -> None:
    members = GroupMembers(1)
    for at_ms in (0, 60_000):
        members.told([BrokerMember("a", number, f"h{number}:1", number <= alive) for number in (1, 2, 3)], at_ms)
    (alert,) = BrokerState(members=members).alerts()
    assert (alert.rule, alert.is_warning) == (rule, alive == 2)
    assert "3 (h3:1) since 1970-01-01 00:00:00 UTC" in alert.reason


def test_a_broker_is_ready_when_one_name_server_knows_it_or_there_is_none_to_know_it() -> None:
    starting = BrokerState(name_servers=("a:1", "b:1"))
    assert list(starting.unready()) == ["no NameServer has taken the registration: a:1, b:1"]
    assert list(starting.alerts()) == [], "nobody has failed to answer yet"
    assert list(BrokerState(name_servers=("a:1", "b:1"), told=("b:1",)).unready()) == []


@pytest.mark.real
def test_the_rules_for_prometheus_do_what_their_scenarios_say() -> None:
    check_rules(PROMETHEUS / "broker.rules.test.yml")


@pytest.mark.proof
@each_case(
    ("ratio > rocketmq", "ratio >= rocketmq"),
    ("max_fds > 0.8", "max_fds > 0.7"),
    ('kind="fenced"', 'kind="busy"'),
    ("> 10000", "> 12000"),
    ('"}[10m]) > 0', '"}[10m]) > 99999'),
    ("> 0.01", "> 0.012"),
    ("> 0 unless", "> 99 unless"),
)
def test_a_wrong_rule_for_prometheus_does_not_pass(right: str, wrong: str, tmp_path: Path) -> None:
    rules = (PROMETHEUS / "broker.rules.yml").read_text()
    assert right in rules
    (tmp_path / "broker.rules.yml").write_text(rules.replace(right, wrong))
    (tmp_path / "broker.rules.test.yml").write_text((PROMETHEUS / "broker.rules.test.yml").read_text())
    with pytest.raises(AssertionError):
        check_rules(tmp_path / "broker.rules.test.yml")


def test_prometheus_has_the_built_in_rules_with_their_kinds() -> None:
    text = (PROMETHEUS / "broker.rules.yml").read_text()
    assert set(re.findall(r"alert: (\S+)", text)) == {rule.value for rule in BrokerAlertRule} | PROMETHEUS_ONLY
    of_kinds = re.findall(r'alert: (\S+)\n\s+expr: rocketmq_broker_store_trouble\{kind="([^"]+)"\} == 1', text)
    assert {(rule.value, kind.value) for kind, rule in RULES.items()} == set(of_kinds)
