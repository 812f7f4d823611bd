from __future__ import annotations

import pytest
import typer

from orbitmq.cli.topics.permissions import parse_permission, permission_word


@pytest.mark.parametrize(("word", "perm"), [("rw", 6), ("r", 4), ("w", 2)])
def test_a_word_and_its_bits_belong_together(word: str, perm: int) -> None:
    assert parse_permission(word) == perm
    assert permission_word(perm) == permission_word(perm | 1 | 8) == word


def test_queues_that_nobody_may_use_have_a_word_of_their_own() -> None:
    assert permission_word(0) == permission_word(1) == "none"


@pytest.mark.parametrize("word", ["", "wr", "none", "6"])
def test_another_word_is_told(word: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not rw, r or w"):
        parse_permission(word)
