"""The quick form of `python -m memory_proof`: answers from memory are those that are worked out anew."""

from __future__ import annotations

import logging
import os

import pytest

from memory_proof.proof import Proof
from memory_proof.stream import KINDS, Stream

QUICK = 20_000


@pytest.mark.slow
def test_no_answer_from_memory_differs_from_one_that_is_worked_out_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    seed = int(os.environ.get("ORBITMQ_SEED") or int.from_bytes(os.urandom(4), "big"))
    print(f"PYTHONPATH=tests python -m memory_proof --requests {QUICK} --seeds 1 --first-seed {seed}")
    with Proof() as proof:
        found = next(proof.run(seed, QUICK), None)
        if found is not None:
            pytest.fail(str(proof.shrink(found)), pytrace=False)
        assert proof.counts.total() >= QUICK


def test_a_stream_follows_from_its_seed_alone() -> None:
    assert list(Stream(7).steps(500)) == list(Stream(7).steps(500))
    assert list(Stream(7).steps(500)) != list(Stream(7, chapter=1).steps(500))


def test_every_kind_of_step_comes_by_in_a_few_chapters() -> None:
    assert {kind for chapter in range(20) for kind in Stream(1, chapter).kinds} == KINDS.keys()
