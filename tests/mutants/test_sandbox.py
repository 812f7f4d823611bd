"""A mutant in its sandbox: noticed, hanging or not, and the working tree as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.mutation import Mutant, mutants_of
from mutants.rooms import ROOT, SOURCE
from mutants.sandbox import Sandbox

MODULE = "wire/messages/properties.py"
TESTS = ["tests/unit/wire/messages/test_properties.py"]
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return Sandbox(tmp_path_factory.mktemp("sandbox"), seed=0)


@pytest.mark.proof
def test_a_mutant_is_noticed_where_it_is_tested_and_the_next_run_is_clean(sandbox: Sandbox) -> None:
    source = (ROOT / SOURCE / MODULE).read_bytes()
    broken = sandbox.try_mutant(MODULE, mutants_of(source)[0], TESTS, LIMIT_S)
    after = sandbox.baseline(TESTS, LIMIT_S)
    assert (broken.code, after.code) == (1, 0), broken.output + after.output
    assert (ROOT / SOURCE / MODULE).read_bytes() == source


@pytest.mark.proof
def test_a_mutant_that_hangs_is_ended_and_counts_as_noticed(sandbox: Sandbox) -> None:
    end = (ROOT / SOURCE / MODULE).stat().st_size
    endless = Mutant(1, "", "", "", start=end, end=end, replacement="while True: pass\n")
    outcome = sandbox.try_mutant(MODULE, endless, TESTS, limit_s=3.0)
    assert outcome.code is None
    assert outcome.noticed


def test_an_ended_sandbox_runs_nothing_more(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, seed=0)
    sandbox.end()
    with pytest.raises(InterruptedError):
        sandbox.baseline(TESTS, LIMIT_S)
