"""Every file of the store removed, emptied, zeroed and garbled in the middle, after kill -9 and after a clean stop."""

from collections import defaultdict

import pytest

from crash.damage import DAMAGES, Case, Outcome, cases, judge

W, B, N, R = Outcome.WHOLE, Outcome.REBUILT, Outcome.NAMED, Outcome.REFUSED
# What may come of each kind of file. Only the log's own bytes can be lost; what is derived from it comes back.
ALLOWED = {
    "abort": {W},
    "begin": {W},
    "checkpoint": {W, R},  # R: where the two offsets of the log are garbled
    "commitlog/*": {N, R},
    "consumequeue/*": {W, B},
    "deleted": {W},
    "ends": {W, B},
}
CASES = defaultdict(list)
for case in cases():
    CASES[case.kind, case.damage].append(case)


def test_every_file_of_the_store_is_damaged():
    assert {kind for kind, _ in CASES} == set(ALLOWED)
    assert {end for some in CASES.values() for end in (case.end for case in some)} == {"kill -9", "a clean stop"}


@pytest.mark.parametrize(("kind", "damage"), [(kind, damage) for kind in ALLOWED for damage in DAMAGES])
def test_no_damage_is_a_silent_loss(kind: str, damage: str):
    some: list[Case] = CASES[kind, damage]
    outcomes = {str(case): judge(case) for case in some}
    assert {name: outcome for name, outcome in outcomes.items() if outcome[0] not in ALLOWED[kind]} == {}


def test_a_missing_log_file_is_named_with_what_is_lost():
    told = [judge(case)[1] for case in CASES["commitlog/*", "removed"]]
    assert all(
        "were on the disk" in text or "is missing before" in text or "4096 bytes before that were removed" in text
        for text in told
    )
