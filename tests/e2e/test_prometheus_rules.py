"""The rules for Prometheus over all servers and over the exporter: their scenarios, and that a wrong threshold is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from promtool import check_rules

RULES = Path(__file__).parents[2] / "deploy" / "prometheus"


@pytest.mark.parametrize("name", ["system", "exporter"])
def test_the_rules_do_what_their_scenarios_say(name: str) -> None:
    check_rules(RULES / f"{name}.rules.test.yml")


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("system", "(rocketmq_broker_is_master) > 1", "(rocketmq_broker_is_master) > 2"),
        ("system", "shadow_drift > 0", "shadow_drift > 2"),
        ("exporter", "> 256 * 1024 * 1024", "> 1024 * 1024 * 1024"),
        (
            "exporter",
            "sum by (group, topic) (rocketmq_group_diff) > 10000",
            "sum by (group, topic) (rocketmq_group_diff) > 90000",
        ),
    ],
)
def test_a_wrong_threshold_does_not_pass(tmp_path: Path, name: str, right: str, wrong: str) -> None:
    rules = (RULES / f"{name}.rules.yml").read_text()
    assert right in rules
    (tmp_path / f"{name}.rules.yml").write_text(rules.replace(right, wrong))
    (tmp_path / f"{name}.rules.test.yml").write_text((RULES / f"{name}.rules.test.yml").read_text())
    with pytest.raises(AssertionError):
        check_rules(tmp_path / f"{name}.rules.test.yml")
