"""The route table against a plain sequential model, by random histories. `make hostile` lives a million steps."""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from .route_history import ARGUMENTS, History, play

STEPS = int(os.environ.get("ORBITMQ_MODEL_STEPS", "6000"))
STEPS_PER_RUN = 60
SEED = os.environ.get("ORBITMQ_SEED", "20261121")


class RouteTableHistory(History, RuleBasedStateMachine):
    """The operations as rules: hypothesis chooses, and shrinks what fails."""

    begin = initialize(deletes_missing_topics=st.booleans())(History.begin)
    compare = invariant()(History.compare)


for operation, arguments in ARGUMENTS.items():
    strategies = {name: st.sampled_from(options) for name, options in arguments.items()}
    setattr(RouteTableHistory, operation, rule(**strategies)(getattr(History, operation)))

TestRouteTableHistory = RouteTableHistory.TestCase
TestRouteTableHistory.settings = settings(
    max_examples=max(1, STEPS // STEPS_PER_RUN), stateful_step_count=STEPS_PER_RUN, deadline=None
)


def test_histories_that_follow_from_a_seed():
    for number in range(STEPS // STEPS_PER_RUN):
        play(f"{SEED}-{number}", STEPS_PER_RUN)
