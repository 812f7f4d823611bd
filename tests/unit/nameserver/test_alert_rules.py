"""The Prometheus rules say what the built-in ones say, and do it: promtool is asked."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from orbitmq.nameserver.monitoring import alerts

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "nameserver.rules.yml"
TESTS = ROOT / "deploy" / "prometheus" / "nameserver.rules.test.yml"


@pytest.fixture(scope="module")
def promtool() -> str:
    found = subprocess.run([ROOT / "scripts" / "find-promtool"], capture_output=True, text=True, check=False)
    if found.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(found.stderr)
        pytest.skip(found.stderr.strip().splitlines()[-1])
    return found.stdout.strip()


def test_the_rules_do_what_their_scenarios_say(promtool):
    done = subprocess.run(
        [promtool, "test", "rules", TESTS.name], cwd=TESTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_threshold_does_not_pass(promtool, tmp_path):
    (tmp_path / RULES.name).write_text(RULES.read_text().replace("> 0.01 *", "> 0.02 *"))
    (tmp_path / TESTS.name).write_text(TESTS.read_text())
    done = subprocess.run(
        [promtool, "test", "rules", TESTS.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0


def test_the_built_in_rules_have_the_same_names_thresholds_and_window():
    text = RULES.read_text()
    assert re.findall(r"alert: (\S+)", text) == [rule.value for rule in alerts.Rule]
    assert set(re.findall(r"\[(\w+)\]", text)) == {f"{alerts.WINDOW_MS // 60_000}m"}
    assert f">= {alerts.QUERIES_MIN})" in text
    thresholds = [float(number) for number in re.findall(r"> (0\.\d+)", text)]
    expected = [alerts.FAILURE_RATIO_MAX, alerts.MEMORY_RATIO_MAX, alerts.GC_SHARE_MAX, alerts.LOOP_LAG_MS_MAX / 1000]
    assert thresholds == expected
