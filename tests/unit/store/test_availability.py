"""Which state a store is in: by the conditions that hold, whatever the order in which they came."""

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.store.availability import Availability, StoreState

PAGE = Path(__file__).parents[3] / "docs" / "explain" / "durability.md"
CONDITIONS: dict[str, tuple[Any, StoreState]] = {
    "is_closed": (True, StoreState.CLOSED),
    "fault": ("bad sector", StoreState.FENCED),
    "is_copy": (True, StoreState.COPY),
    "full": ("the disk is full", StoreState.FULL),
    "uncopied": ("the sync set is [1]", StoreState.UNCOPIED),
    "are_entries_behind": (True, StoreState.BEHIND),
    "is_log_behind": (True, StoreState.BEHIND),
}
"""Each condition with the state that it makes, the strongest first."""


def state_of(availability):
    return availability.refusal and availability.refusal.state


def test_a_store_takes_messages_while_no_condition_holds():
    assert Availability().refusal is None


@each_case(*CONDITIONS)
def test_each_condition_makes_its_state_and_ends_it(name):
    value, state = CONDITIONS[name]
    held = Availability()._replace(**{name: value})
    assert state_of(held) is state
    assert held._replace(**{name: Availability()._asdict()[name]}).refusal is None


@given(st.sets(st.sampled_from(sorted(CONDITIONS)), min_size=1))
def test_of_several_conditions_the_strongest_counts_whatever_comes_last(names):
    availability = Availability(**{name: CONDITIONS[name][0] for name in names})
    assert state_of(availability) is next(CONDITIONS[name][1] for name in CONDITIONS if name in names)


def test_the_reason_of_an_error_is_what_the_refusal_says():
    assert Availability(full="the disk is 96 % full").refusal == (StoreState.FULL, "the disk is 96 % full")
    assert Availability(fault="a sync failed").refusal == (StoreState.FENCED, "a sync failed")
    assert "queueEntriesMax" in Availability(are_entries_behind=True).refusal.reason


def test_the_page_on_durability_lists_the_states_in_the_order_in_which_they_count():
    table = PAGE.read_text().split("## When a store takes messages")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert listed == [state.value for state in StoreState]
