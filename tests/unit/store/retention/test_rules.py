"""When a file may be deleted: the bounds of Java's rules."""

from itertools import product

import pytest

from cases import each_case
from orbitmq.store.retention.rules import (
    HOUR_MS,
    RetentionRules,
    Usage,
    check_usage,
    is_refusing,
    is_time_to_delete,
    may_delete,
    parse_hours,
)

RULES = RetentionRules()
EXPIRED = 72 * HOUR_MS


@each_case(
    (0.0, Usage.FINE),
    (0.75, Usage.FINE),
    (0.7501, Usage.HIGH),
    (0.85, Usage.HIGH),
    (0.8501, Usage.FORCING),
    (0.90, Usage.FORCING),
    (0.9001, Usage.FULL),
    (1.0, Usage.FULL),
    (None, Usage.HIGH),
)
def test_each_ratio_of_the_disk_means_something_only_above_it(used_ratio, usage):
    assert check_usage(used_ratio, RULES) is usage


def test_a_hundred_percent_means_never():
    rules = RetentionRules(high_ratio=1.0, forcing_ratio=1.0, full_ratio=1.0)
    assert check_usage(1.0, rules) is Usage.FINE


@each_case(*product(Usage, [False, True]))
def test_a_full_disk_is_refused_until_it_is_well_below(usage, was_refusing):
    expected = usage is Usage.FULL or (was_refusing and usage is Usage.FORCING)
    assert is_refusing(usage, was_refusing) is expected


@each_case(
    (Usage.FINE, 4, False, True),
    (Usage.FINE, 3, False, False),
    (Usage.FINE, 5, False, False),
    (Usage.FINE, 5, True, True),
    (Usage.HIGH, 5, False, True),
    (Usage.FULL, 5, False, True),
)
def test_files_are_deleted_at_their_hour_when_asked_for_and_when_the_disk_fills(usage, hour, is_asked, expected):
    assert is_time_to_delete(usage, hour, is_asked=is_asked, rules=RULES) is expected


@each_case(Usage.FINE, Usage.HIGH)
def test_below_the_forcing_ratio_only_what_has_expired_goes(usage):
    assert may_delete(EXPIRED, usage, RULES)
    assert not may_delete(EXPIRED - 1, usage, RULES)
    assert not may_delete(-HOUR_MS, usage, RULES)
    assert not may_delete(None, usage, RULES)


@each_case(Usage.FORCING, Usage.FULL)
def test_above_the_forcing_ratio_anything_goes_unless_that_is_forbidden(usage):
    assert may_delete(0, usage, RULES)
    assert may_delete(None, usage, RULES)
    gentle = RetentionRules(may_force=False)
    assert not may_delete(EXPIRED - 1, usage, gentle)
    assert may_delete(EXPIRED, usage, gentle)


@each_case(("04", {4}), ("4", {4}), ("04;16", {4, 16}), ("00;23", {0, 23}))
def test_hours_are_read_as_java_reads_them(text, hours):
    assert parse_hours(text) == hours


@each_case("", "24", "-1", "4,5", "four", "04;")
def test_other_texts_are_no_hours(text):
    with pytest.raises(ValueError, match=r"hours|invalid literal"):
        parse_hours(text)
