"""The history of routes: questions are answered in little time and in one frame, however much is remembered."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from hostile.served import Link, giant, leaving_of, serving
from orbitmq.wire.frame import FRAME_SIZE_MAX
from orbitmq.wire.headers import GetRouteDifference, GetRouteHistory

MILLION = 1_000_000
TOPICS = 60_000
MANY_TIMES = 4

pytestmark = pytest.mark.usefixtures("without_collections")


def fill(link: Link, moves: int) -> None:
    """Let a giant broker come and go: each time its topics count three times."""
    for version in range(moves):
        assert link.ask(*giant("giant", TOPICS, version=version)).code == 0
        assert link.ask(leaving_of("giant")).code == 0


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.proof)])
@pytest.mark.parametrize(
    "question",
    [GetRouteHistory(), GetRouteDifference(at_ms=0)],
    ids=["everything's history", "the difference from long ago"],
)
def test_a_question_for_as_many_changes_as_are_kept_costs_a_few_slices(
    question: object, times: int, tmp_path: Path
) -> None:
    with serving(tmp_path, route_history_size=MILLION) as served, served.link() as link:
        with served.turns() as reference:
            assert link.ask(*giant("reference", 8_000)).code == 0
        fill(link, times)
        with served.turns() as turns:
            assert link.ask(question).code == 0
        assert turns.longest_s < MANY_TIMES * reference.longest_s


def test_a_difference_that_fits_into_no_frame_is_cut_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, route_history_size=MILLION) as served, served.link() as link:
        assert link.ask(*giant("giant", 85_000)).code == 0
        assert link.ask(*giant("other-giant", 85_000)).code == 0
        answer = link.ask(GetRouteDifference(at_ms=0))
        assert len(answer.body) < FRAME_SIZE_MAX
        document = orjson.loads(answer.body)
        assert document["complete"] is False
        assert document["topics"]
