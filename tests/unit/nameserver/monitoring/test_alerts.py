"""Claims about the alert rules; those for Prometheus say the same (promtool is asked)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from orbitmq.nameserver.monitoring import alerts
from orbitmq.nameserver.monitoring.alerts import AlertRules, LostBroker, NameServerAlertRule, NameServerState
from promtool import check_rules


def sample(at_s: int = 0, **values: Any) -> NameServerState:
    return NameServerState(**{"at_ms": at_s * 1000, "route_queries": 0, "route_failures": 0} | values)


def lost(text: str) -> LostBroker:
    return LostBroker(f"c/{text}:0", text, 0)


def rules_after(*samples: NameServerState) -> list[NameServerAlertRule]:
    watch = AlertRules()
    alerts = ()
    for each in samples:
        alerts = watch.add(each)
    return [alert.rule for alert in alerts]


def test_a_quiet_hour_raises_nothing():
    quiet = [
        sample(at, route_queries=at * 100, route_failures=at // 10, gc_ms=at, loop_lag_ms=2)
        for at in range(0, 3600, 10)
    ]
    watch = AlertRules()
    assert [watch.add(each) for each in quiet] == [()] * len(quiet)


@each_case((1, "b0"), (3, "b0, b1, b2"), (4, "b0, b1, b2, and 1 more"), (9, "b0, b1, b2, and 6 more"))
def test_lost_brokers_are_one_alert_that_names_three(count, named):
    watch = AlertRules()
    (alert,) = watch.add(sample(0, lost=[lost(f"b{number}") for number in range(count)]))
    assert alert.rule == NameServerAlertRule.BROKER_COUNT_DROPPED
    assert alert.reason == f"gone without a good-bye: {named}"
    assert alert.subjects == tuple(f"c/b{number}:0" for number in range(count))


@each_case((300, False), (301, True))
def test_a_lost_broker_is_an_error_for_five_minutes_and_then_a_warning_until_it_is_back(after_s, is_warning):
    (alert,) = AlertRules().add(sample(after_s, lost=[lost("b")]))
    assert alert.is_warning is is_warning


def test_the_alert_ends_when_no_broker_is_missed_any_more():
    assert rules_after(sample(0), sample(10, lost=[lost("b")]), sample(20)) == []


@each_case((10_000, 100, False), (10_000, 101, True), (99, 2, False), (100, 2, True))
def test_one_per_cent_of_failures_is_allowed_and_more_is_not_unless_queries_are_few(queries, failures, holds):
    rules = rules_after(sample(0), sample(60, route_queries=queries, route_failures=failures))
    assert (NameServerAlertRule.ROUTE_QUERIES_FAIL in rules) is holds


@each_case((800, False), (801, True))
def test_eighty_per_cent_of_memory_is_allowed_and_more_is_not(memory, holds):
    assert (NameServerAlertRule.MEMORY_HIGH in rules_after(sample(memory=memory, memory_limit=1000))) is holds


def test_shares_of_a_moment_say_nothing_yet():
    assert rules_after(sample(0), sample(29, route_queries=2, route_failures=1, gc_ms=29_000, loop_lag_ms=999)) == []


def test_an_unknown_memory_limit_raises_nothing():
    assert rules_after(sample(memory=10**12)) == []


@each_case((3000, False), (3001, True))
def test_collections_may_take_a_twentieth_of_the_time(gc_ms, holds):
    assert (NameServerAlertRule.GC_OR_LAG in rules_after(sample(0), sample(60, gc_ms=gc_ms))) is holds


@each_case((100, False), (101, True))
def test_the_loop_may_run_a_tenth_of_a_second_late(lag_ms, holds):
    assert (
        NameServerAlertRule.GC_OR_LAG in rules_after(sample(0, loop_lag_ms=lag_ms), sample(60, loop_lag_ms=lag_ms))
    ) is holds


ROOT = Path(__file__).parents[4]
RULES = ROOT / "deploy" / "prometheus" / "nameserver.rules.yml"
TESTS = ROOT / "deploy" / "prometheus" / "nameserver.rules.test.yml"


@pytest.mark.real
def test_the_rules_do_what_their_scenarios_say():
    check_rules(TESTS)


@pytest.mark.real
def test_a_wrong_threshold_does_not_pass(tmp_path):
    (tmp_path / RULES.name).write_text(RULES.read_text().replace("> 0.01 *", "> 0.02 *"))
    (tmp_path / TESTS.name).write_text(TESTS.read_text())
    with pytest.raises(AssertionError):
        check_rules(tmp_path / TESTS.name)


def test_the_built_in_rules_have_the_same_names_thresholds_and_window():
    text = RULES.read_text()
    assert re.findall(r"alert: (\S+)", text) == [rule.value for rule in alerts.NameServerAlertRule]
    assert set(re.findall(r"\[(\w+)\]", text)) == {f"{alerts.WINDOW_MS // 60_000}m"}
    assert f">= {alerts.QUERIES_MIN})" in text
    thresholds = [float(number) for number in re.findall(r"> (0\.\d+)", text)]
    expected = [alerts.FAILURE_RATIO_MAX, alerts.MEMORY_RATIO_MAX, alerts.GC_SHARE_MAX, alerts.LOOP_LAG_MS_MAX / 1000]
    assert thresholds == expected


def test_samples_in_any_number_are_kept_as_few_and_lose_no_peak():
    watch = AlertRules()
    for at_ms in range(1_000):
        watch.add(sample(at_ms=at_ms, loop_lag_ms=400 if at_ms == 500 else 0))
    assert watch.sample_count == 1
    (alert,) = watch.add(sample(60))
    assert alert.reason == "the event loop runs 200 ms late"


def test_what_is_not_known_of_a_process_is_nothing():
    plain = NameServerState(at_ms=0, route_queries=0, route_failures=0)
    assert plain.lost == ()
    assert (plain.memory, plain.memory_limit, plain.gc_ms, plain.loop_lag_ms) == (0, 0, 0, 0)


@each_case((0, 1), (1, 1), (alerts.SAMPLE_MS - 1, 1), (alerts.SAMPLE_MS, 2), (-1, 2))
def test_samples_of_nearly_the_same_moment_are_one(later_ms, count):
    watch = AlertRules()
    for at_ms in (100_000, 100_000 + later_ms):
        watch.add(sample(at_ms=at_ms))
    assert watch.sample_count == count


@each_case((29, False), (30, True))
def test_shares_are_told_of_half_a_minute_whenever_it_is(seconds, holds):
    first, last = sample(100), sample(100 + seconds, route_queries=1_000, route_failures=500)
    assert (NameServerAlertRule.ROUTE_QUERIES_FAIL in rules_after(first, last)) is holds


def test_only_what_was_counted_within_the_window_counts():
    watch = AlertRules()
    watch.add(sample(100, route_queries=10_000, route_failures=50, gc_ms=1_000))
    found = watch.add(sample(160, route_queries=10_200, route_failures=150, gc_ms=7_000))
    assert [alert.reason for alert in found] == [
        "100 of 200 route queries failed",
        "garbage collection took 6000 of 60000 ms",
    ]
