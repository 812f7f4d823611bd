"""The quick form of `make compat-broker`: some hundred random commands to Java's broker and ours, answers compared."""

import os
from itertools import count
from pathlib import Path

import pytest

from compat.broker.comparison import Comparison
from compat.broker.pair import both_brokers
from compat.broker.reasons import REASONS
from compat.broker.stories import Story
from compat.broker.tally import Tally
from interop.peers import why_unavailable

QUICK = 300
FIRST_STORY = 20_000_001
"""The same stories every time. The long form looks for new ones: some tens of thousands of commands still come upon a rule for
requests that nobody sends, and a run of all tests would fail for it once in a while."""


@pytest.mark.java
def test_our_broker_answers_as_javas_does(tmp_path):
    reason = why_unavailable()
    if reason is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    print(f"PYTHONPATH=tests python -m compat.broker --commands {QUICK} --story {FIRST_STORY}")
    with both_brokers(tmp_path, is_quick=True) as (java, ours):
        comparison = Comparison(java, ours)
        for story in count(FIRST_STORY):
            comparison.compare(Story(story))
            if comparison.tally.counts.total() >= QUICK:
                break
    assert [*comparison.tally.differences.values()] == []


def test_every_difference_by_intention_stands_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    missing = [reason.name for reason in REASONS if f"| {reason.name} | {reason.java} | {reason.ours} |" not in page]
    assert missing == []


def test_a_story_follows_from_its_seed_alone():
    assert Story(7).steps == Story(7).steps
    assert Story(7).steps != Story(8).steps


def test_a_story_ends_by_taking_away_what_it_made():
    steps = Story(7).steps
    deleted = {step.fields["topic"] for step in steps[-20:] if step.code == 215}
    assert {
        step.fields["topic"] for step in steps if step.code == 17 and step.fields["topic"].startswith("\u00a7")
    } <= {
        *deleted,
        "\u00a7" + "x" * 125,
    }


def test_a_run_goes_on_where_the_last_one_of_its_tally_ended(tmp_path):
    path = tmp_path / "tally"
    tally = Tally.read(path, 113_000_000)
    assert tally == Tally(next_story=113_000_000)
    tally.counts[310] += 2
    tally.listed["names"] += 1
    tally.differences["36: answer.code"] = "story 7"
    tally.next_story, tally.stories, tally.seconds = 113_000_009, 9, 1.5
    tally.write(path)
    assert Tally.read(path, 1) == tally
