"""Places of mutants, the order of tests, and the list of mutants that are not run."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from mutants.order import distance
from mutants.rooms import ROOT, drawn, equivalents, places, room_of, unit_tests


@pytest.mark.proof
def test_every_room_of_the_source_has_unit_tests() -> None:
    rooms = {place.room for place in places()}
    assert {"wire", "net", "top"} <= rooms
    assert all((ROOT / test).exists() for room in rooms for test in unit_tests(room))


@pytest.mark.proof
def test_a_place_is_a_room_a_package_a_module_or_a_line() -> None:
    module = places(["wire/messages/properties.py"])
    assert {place.module for place in module} == {"wire/messages/properties.py"}
    assert places([f"src/orbitmq/wire/messages/properties.py:{module[0].mutant.line}"])[0] == module[0]
    assert {place.room for place in places(["wire/bodies"])} == {room_of("wire/bodies/document.py")} == {"wire"}
    assert {place.module for place in places(["top"])} >= {"files.py", "address.py"}


@pytest.mark.proof
def test_a_place_without_mutants_is_refused() -> None:
    with pytest.raises(LookupError, match="nowhere"):
        places(["nowhere"])


@pytest.mark.proof
def test_a_seed_draws_the_same_mutants_though_others_came_and_went() -> None:
    everything = places(["wire/bodies", "net"])
    sample = drawn(everything, 40, seed=27)
    without = [place for place in everything if place in sample or place.room == "net"]
    assert len(sample) == 40
    assert drawn(without, 40, seed=27) == sample
    assert drawn(everything, 40, seed=28) != sample


def test_the_tests_of_a_module_run_before_all_others() -> None:
    unit = Path("/somewhere/tests/unit")
    tests = ["wire/test_golden.py", "wire/bodies/test_kv.py", "wire/test_bodies.py", "wire/bodies/test_route.py"]
    ordered = sorted(tests, key=lambda test: distance(PurePath("wire/bodies/route.py"), unit / test))
    assert ordered == [
        "wire/bodies/test_route.py",
        "wire/test_bodies.py",
        "wire/bodies/test_kv.py",
        "wire/test_golden.py",
    ]


@pytest.mark.proof
@pytest.mark.proof
def test_every_listed_mutant_is_still_one() -> None:
    found = places()
    stale = [entry for entry in equivalents() if not any(entry.is_of(place) for place in found)]
    assert stale == []
