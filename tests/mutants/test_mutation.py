"""Mutations of small modules: what is broken, and what is left alone."""

from __future__ import annotations

import ast

from cases import each_case
from mutants.mutation import mutants_of


def mutations(source: str) -> list[str]:
    """Return the broken lines of a module."""
    return [mutant.after for mutant in mutants_of(source.encode())]


@each_case(
    ("a < b", ["a <= b"]),
    ("a >= b", ["a > b"]),
    ("a == b", ["a != b"]),
    ("a is not b", ["a is b"]),
    ("a not in b", ["a in b"]),
    ("a <= b < c", ["a < b < c", "a <= b <= c"]),
    ("a and b or c", ["a or b or c", "a and b and c"]),
    ("not a", ["a"]),
    ("a + b", ["a - b"]),
    ("a += b", ["a -= b"]),
    ("a = 7", ["a = 8"]),
    ("a = 0xFF", ["a = 0x100"]),
    ("HEAD_SIZE = 8", ["HEAD_SIZE = 9"]),
    ("a = 1000", ["a = 1001"]),
    ("a = b // 8", ["a = b // 9"]),
    ("a = True", ["a = False"]),
    ("def f(a: int, b: bool = False): ...", ["def f(a: int, b: bool = True): ..."]),
    ("a.b()", ["pass"]),
    ("raise E", ["pass"]),
    ("a = b if c else d", ["a = b if not (c) else d"]),
    ("a = [b for b in c if b.d]", ["a = [b for b in c if not (b.d)]"]),
)
def test_a_place_is_broken(source: str, broken: list[str]) -> None:
    assert mutations(source) == broken


@each_case(
    ("bool", "return not (a)"),
    ("int", "return 0"),
    ("list[int]", "return []"),
    ("tuple[int, int]", "return None"),
    ("A | None", "return None"),
)
def test_a_result_is_emptied(returns: str, broken: str) -> None:
    assert mutations(f"def f(a) -> {returns}:\n    return a") == [broken]


@each_case(
    '"""A module of 7 < 8."""',
    "log.warning('%d', 7 + a)",
    "assert a < 7",
    "a: tuple[7, True]",
    "@d(True)\ndef f(a: L[7]) -> L[7]: ...",
    "class A:\n    def __repr__(self):\n        return a + b",
    "LIMIT_S = 7",
    "FRAME_SIZE_MAX = 7 + a",
    "_READ_SIZE = 64 * 1024",
    "a = b / 1000 * 1000",
    "if a < b: log.info('text')",
    "if TYPE_CHECKING:\n    import a",
    "f'{a < 7}'",
    "a = 'text' + b",
    "a = field(repr=False)",
    "return_ = None",
    "raise NotImplementedError",
)
def test_what_no_test_should_notice_is_left_alone(source: str) -> None:
    assert mutations(source) == []


def test_every_mutant_is_a_module_that_parses() -> None:
    source = b"# \xc3\xa4\nclass A:\n    def f(self, b=(1,)) -> int:\n        if (not b) and b[0] < 2: raise E\n        return (b\n                or 3)\n"
    broken = [mutant.applied_to(source) for mutant in mutants_of(source)]
    assert len(broken) == len(set(broken)) > 7
    for text in broken:
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(source))


def test_a_mutant_says_where_it_is() -> None:
    (mutant,) = mutants_of(b"class A:\n    def f(self):\n        return (a\n            .b)\n")
    assert (mutant.line, mutant.function) == (3, "A.f")
    assert (mutant.before, mutant.after) == ("return (a .b)", "return (None)")
