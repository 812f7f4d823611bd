import asyncio
from pathlib import Path

import pytest

from cases import each_case


def test_each_failing_case_is_reported_and_the_others_run() -> None:
    seen: list[str] = []

    @each_case((1, "a"), (2, "b"), (3, "c"))
    def check(number: int, word: str) -> None:
        seen.append(word)
        assert number == 2
        with pytest.raises(ValueError, match="never"):
            raise ValueError("never")

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases fail") as caught:
        check()
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: (1, 'a')"], ["case: (3, 'c')"]]
    assert seen == ["a", "b", "c"]


@each_case((), None)
def test_a_test_with_one_parameter_takes_the_row_as_it_is(value: object) -> None:
    assert not value


@each_case(("a", 1), ("b", 2))
def test_arguments_behind_a_row_are_fixtures(name: str, size: int, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(bytes(size))
    assert (tmp_path / name).stat().st_size == size


async def test_async_cases_run_one_after_another() -> None:
    @each_case((1, "a"), (2, "b"))
    async def check(number: int, word: str) -> None:
        await asyncio.sleep(0)
        assert (number, word) == (2, "b")

    with pytest.raises(BaseExceptionGroup, match="1 of 2 cases fail"):
        await check()


def test_a_check_that_fails_outside_of_an_assert_is_reported_too() -> None:
    @each_case(7)
    def check(number: int) -> None:
        with pytest.raises(ValueError):
            str(number)

    with pytest.raises(BaseExceptionGroup, match="1 of 1"):
        check()
