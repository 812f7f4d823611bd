"""The order of the house: what was reached once stays so."""

from __future__ import annotations

import pytest

from house import measures


@pytest.mark.parametrize("package", ["nameserver", "client", "net"])
def test_a_room_has_few_modules_at_its_top(package: str) -> None:
    assert measures.modules_at_top()[f"orbitmq.{package}"] <= measures.TOP_MAX


def test_the_subject_of_a_commit_fits_into_one_line() -> None:
    assert measures.long_subjects() == []


@pytest.mark.parametrize(
    ("line", "is_unreachable"),
    [
        ("Source: Java TopicConfigManager; facts C13, D1.", True),
        ("the fact of A13-10", True),
        ("as S5 asks", True),
        ("facts of the requests 310 and 320", True),
        ("Source: docs/formats/config_files.md; apache/rocketmq#3401", False),
        ("difference.facts: IPv4, S3Path, utf8, CRC32", False),
    ],
)
def test_a_reference_is_told_from_other_words(line: str, is_unreachable: bool) -> None:
    assert bool(measures.UNREACHABLE.search(line)) is is_unreachable
