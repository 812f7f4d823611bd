"""The quick form of `python -m memory_proof`: answers from memory are those that are computed again."""

from __future__ import annotations

import asyncio
import logging

import pytest

from memory_proof.proof import Proof
from memory_proof.servers import FakeClock, two_sides
from memory_proof.stream import CLIENTS, KINDS, ROUTE_FORMS, Ask, Player, Stream, route
from seeds import SEED

QUICK = 2_000


def test_no_answer_from_memory_differs_from_one_that_is_computed_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    print(f"PYTHONPATH=tests python -m memory_proof --requests {QUICK} --seeds 1 --first-seed {SEED}")
    with Proof() as proof:
        found = next(proof.run(SEED, QUICK), None)
        if found is not None:
            pytest.fail(str(proof.shrink(found)), pytrace=False)
        assert proof.counts.total() >= QUICK


def test_a_stream_follows_from_its_seed_alone() -> None:
    assert list(Stream(7).steps(500)) == list(Stream(7).steps(500))
    assert list(Stream(7).steps(500)) != list(Stream(7, chapter=1).steps(500))


def test_every_kind_of_step_comes_by_in_a_few_chapters() -> None:
    assert {kind for chapter in range(20) for kind in Stream(1, chapter).kinds} == KINDS.keys()


def test_one_of_the_two_remembers_and_the_other_does_not() -> None:
    broker = Player(0, "c1", "a", 0, "a:1", topics={"t0": (4, 4, 6), "t1": (4, 4, 6)})
    asks: list[Ask] = [broker.registration(), route(CLIENTS - 1, "t0", ROUTE_FORMS[0])]

    async def kept() -> list[tuple[bool, ...]]:
        found: list[tuple[bool, ...]] = []
        async with two_sides(FakeClock()) as sides:
            for side in sides:
                for ask in asks * 2:
                    await side.ask((ask,))
                service = side.server.service
                memories = service.bodies, service.registration_fast_path, service.route_queries
                found.append(tuple(len(memory) > 0 for memory in memories))
        return found

    assert asyncio.run(kept()) == [(True, True, True), (False, False, False)]
