"""The quick forms of `make proof ARGS="--only compat/broker --only compat/admin"`: some hundred random commands to Java's broker and ours."""

import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest

from compat.admin.__main__ import Kind, Run
from compat.admin.answers import normalise
from compat.admin.pair import RULES, open_brokers
from compat.admin.reasons import REASONS as ADMIN_REASONS
from compat.admin.scenarios import GuardedScenario
from compat.admin.scenarios import Scenario as AdminScenario
from compat.broker import sides
from compat.broker.comparison import Comparison, Told
from compat.broker.reasons import REASONS
from compat.broker.scenarios import Scenario
from compat.broker.sides import Memory, Side
from compat.broker.steps import Step
from compat.broker.tally import Tally
from interop.peers import require_java
from orbitmq.wire.command import Command

QUICK = 300
FIRST_STORY = 20_000_001
"""The same scenarios every time. The long form looks for new ones: some tens of thousands of commands still come upon a rule for
requests that clients do not send, and a run of all tests would fail for it once in a while."""
FIRST_ADMIN_STORY = 20_000_001


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    require_java()
    with open_brokers(tmp_path_factory.mktemp("brokers"), is_quick=True) as pair:
        yield pair


@pytest.mark.java
def test_our_broker_answers_as_javas_does(brokers):
    print(f"PYTHONPATH=tests python -m compat.broker --commands {QUICK} --scenario {FIRST_STORY}")
    java, ours = brokers
    assert differences(Comparison(java, ours), map(Scenario, count(FIRST_STORY))) == []


@pytest.mark.java
def test_our_broker_answers_administrators_as_javas_does(brokers):
    print(f"PYTHONPATH=tests python -m compat.admin --brokers open --commands {QUICK} --scenario {FIRST_ADMIN_STORY}")
    java, ours = brokers
    assert differences(Comparison(java, ours, rules=RULES), map(AdminScenario, count(FIRST_ADMIN_STORY))) == []


def differences(comparison: Comparison, scenarios: Iterator[Told]) -> list[str]:
    """Tell scenarios until there were enough commands; returns what differed without a reason."""
    for scenario in scenarios:
        comparison.compare(scenario)
        if comparison.tally.counts.total() >= QUICK:
            break
    return [*comparison.tally.differences.values()]


def test_every_difference_by_intention_stands_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    told = set(re.findall(r"(?m)^\| (.+?) \| .+? \| .+? \|$", page))
    assert {reason.name for reason in (*REASONS, *ADMIN_REASONS)} - told == set()


@pytest.mark.parametrize("kind", [Scenario, AdminScenario, GuardedScenario])
def test_a_scenario_follows_from_its_seed_alone(kind):
    assert kind(7).steps == kind(7).steps
    assert kind(7).steps != kind(8).steps


def test_what_is_sent_unanswered_goes_to_topics_that_can_be_written():
    steps = [step for seed in range(30) for step in Scenario(seed).steps]
    locked = {step.fields.get("topic") for step in steps if step.code == 17 and step.fields.get("perm") != "6"}
    assert locked
    assert {step.fields["b"] for step in steps if step.is_oneway and step.code == 310}.isdisjoint(locked)


def test_a_scenario_ends_by_taking_away_what_it_made():
    steps = Scenario(7).steps
    deleted = {step.fields["topic"] for step in steps[-20:] if step.code == 215}
    assert {
        step.fields["topic"] for step in steps if step.code == 17 and step.fields["topic"].startswith("\u00a7")
    } <= {*deleted, "\u00a7" + "x" * 125}


def test_a_run_goes_on_where_the_last_one_of_its_tally_ended(tmp_path):
    path = tmp_path / "tally"
    tally = Tally.read(path, 113_000_000)
    assert tally == Tally(next_scenario=113_000_000)
    tally.counts[310] += 2
    tally.listed["names"] += 1
    tally.differences["36: answer.code"] = "scenario 7"
    tally.next_scenario, tally.scenarios, tally.seconds = 113_000_009, 9, 1.5
    tally.write(path)
    assert Tally.read(path, 1) == tally


def test_a_broker_that_never_lets_its_messages_be_read_is_given_up(monkeypatch):
    monkeypatch.setattr(sides, "TIMEOUT_S", 0)
    side = sides.Side("Java's broker", "127.0.0.1:1")
    answers = {310: {"queueOffset": "7"}, 30: {"offset": "7"}}
    monkeypatch.setattr(side, "ask", lambda code, *_: Command(0, ext_fields=answers[code]))
    with pytest.raises(sides.Silence, match="Java's broker does not let"):
        side.settle()


def test_a_broker_that_is_busy_is_asked_again_whether_its_messages_can_be_read(monkeypatch):
    side = sides.Side("Java's broker", "127.0.0.1:1")
    answers = [
        Command(0, ext_fields={"queueOffset": "7"}),
        Command(2, remark="busy"),
        Command(0, ext_fields={"offset": "8"}),
    ]
    monkeypatch.setattr(side, "ask", lambda *_: answers.pop(0))
    side.settle()
    assert answers == []


@pytest.mark.parametrize(("group", "found"), [("TOOLS_CONSUMER", None), ("q0000002-g", ["\u00a7a"])])
def test_of_a_group_that_all_scenarios_use_no_topics_are_compared(group, found):
    answer = Command(0, body=json.dumps({"topicList": ["q0000002-a"]}).encode())
    normal = normalise(Step(343, {"group": group}), answer, Memory("q0000002-"))
    assert normal.get("body", {}).get("topicList") == found


def test_a_scenario_with_a_silent_broker_is_told_again_and_differs_the_second_time(tmp_path, monkeypatch):
    def stuck(_comparison, _scenario):
        raise sides.Silence("Java's broker does not answer step 3")

    monkeypatch.setattr(Comparison, "compare", stuck)
    side = sides.Side("Java's broker", "")
    kind = Kind(lambda _: nullcontext((side, side)), AdminScenario)
    run = Run(100, 2, Tally(next_scenario=7), tmp_path / "tally")
    assert list(run.tell(kind, 50)) == [None]
    assert Tally.read(run.path, 0) == run.tally
    assert (run.tally.next_scenario, run.tally.scenarios, run.tally.differences) == (7, 0, {})
    assert list(run.tell(kind, 50)) == [None]
    assert (run.tally.next_scenario, run.tally.scenarios) == (8, 1)
    assert list(run.tally.differences.values()) == ["scenario 7: Java's broker does not answer step 3"]


def test_a_link_on_which_java_did_not_answer_is_opened_again(monkeypatch):
    def silent(side, _number):
        raise sides.Silence(f"{side.name} does not answer step 0")

    reopened = []
    monkeypatch.setattr(sides.Side, "receive", silent)
    for name in ("begin", "end", "send"):
        monkeypatch.setattr(sides.Side, name, lambda *_: None)
    monkeypatch.setattr(sides.Side, "reopen", lambda side, link: reopened.append((side.name, link)))
    comparison = Comparison(sides.Side("Java's", ""), sides.Side("ours", ""))
    comparison.tell([Step(12, {}, link=1, header=b"")])
    assert reopened == [("Java's", 1), ("ours", 1)]


def test_of_a_group_that_all_scenarios_use_the_progress_in_topics_of_others_is_left_out():
    table = b'{"offsetTable":{{"topic":"q0000001-a"}:{"brokerOffset":1},{"topic":"q0000002-a"}:{"brokerOffset":2}}}'
    found = normalise(Step(208, {"consumerGroup": "TOOLS_CONSUMER"}), Command(0, body=table), Memory("q0000002-"))
    assert [*found["body"]["offsetTable"].values()] == [{"brokerOffset": 2}]


def test_users_and_rules_of_other_scenarios_are_left_out():
    memory = Memory("q0000002-")
    users = [{"username": name} for name in ("q0000001-anna", "q0000002-anna", "null")]
    found = normalise(Step(3005), Command(0, body=json.dumps(users).encode()), memory)
    assert found["body"] == [{"username": "\u00a7anna"}]
    rules = [{"subject": f"User:{user['username']}", "policies": []} for user in users]
    found = normalise(Step(3010), Command(0, body=json.dumps(rules).encode()), memory)
    assert found["body"] == [{"subject": "User:\u00a7anna", "policies": []}]


def test_of_the_brokers_own_groups_no_settings_are_compared():
    answer = Command(0, body=b'{"groupName":"x"}')
    memory = Memory("q0000002-")
    assert "body" not in normalise(Step(352, {"group": "CID_RMQ_SYS_x"}), answer, memory)
    assert "body" in normalise(Step(352, {"group": "\u00a7g"}), answer, memory)


RESET, DELETED = Step(222, {"topic": "\u00a7a"}), Step(215, {"topic": "\u00a7a"})


@pytest.mark.parametrize(
    ("step", "before", "ends"),
    [
        (Step(314, {"srcGroup": "\u00a7g", "destGroup": "\u00a7h", "topic": " "}), (), True),
        (Step(314, {"srcGroup": "\u00a7g", "destGroup": "\u00a7h", "topic": "\u00a7a"}), (), False),
        (Step(17, {"topic": "\u00a7a", "perm": "6 "}), (), True),
        (Step(17, {"topic": "\u00a7a", "perm": "6"}), (), False),
        (DELETED, (RESET,), True),
        (DELETED, (Step(222, {"topic": "\u00a7b"}), DELETED), False),
    ],
    ids=[
        "copies of no topic",
        "copies of a topic",
        "a number with a blank",
        "a number",
        "after a reset",
        "after others",
    ],
)
def test_a_scenario_ends_where_the_brokers_keep_different_things_from_then_on(step, before, ends):
    assert RULES.ends_silently(step, before) is ends
