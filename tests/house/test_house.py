"""The order of the house: what was reached once stays so."""

from __future__ import annotations

import pytest

from cases import each_case
from house import measures

pytestmark = pytest.mark.real


def test_a_package_has_at_least_three_modules() -> None:
    assert measures.small_packages() == {}


def test_a_modules_docstring_begins_with_what_the_module_is() -> None:
    assert measures.vague_openings() == []


def test_the_subject_of_a_commit_fits_into_one_line() -> None:
    assert measures.long_subjects() == []


def test_no_module_imports_in_a_circle() -> None:
    assert measures.import_circles() == []


def test_names_comments_and_pages_use_the_words_of_the_field() -> None:
    assert measures.forbidden_words() == []


@each_case(
    ("a message that nobody acknowledged", ["nobody"]),
    ("ParkedPull", ["Parked"]),
    ("_read_at_once", ["at_once"]),
    ("a body that is no JSON", ["is no JSON"]),
    ("there is no file any longer", []),
    ("Spark, a parkedPullsMax of 3, rocketmq_broker_store_trouble and `nobody`, besides", []),
)
def test_a_forbidden_word_is_found_in_names_and_texts(text: str, words: list[str]) -> None:
    assert measures.forbidden_words_of(text) == words


def test_no_reference_leads_out_of_the_repository() -> None:
    assert measures.unreachable_references() == []


@each_case(
    ("Source: Java TopicConfigManager; facts C13, D1.", True),
    ("the fact of A13-10", True),
    ("as S5 asks", True),
    ("facts of the requests 310 and 320", True),
    ("Source: docs/formats/config_files.md; apache/rocketmq#3401", False),
    ("difference.facts: IPv4, S3Path, utf8, CRC32", False),
)
def test_a_reference_is_told_from_other_words(line: str, is_unreachable: bool) -> None:
    assert bool(measures.UNREACHABLE.search(line)) is is_unreachable
