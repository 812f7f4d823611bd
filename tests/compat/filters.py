"""The same random expressions and messages through Java 5.3.3's SQL92 filter and ours; every verdict is compared.

    make proof ARGS="--only compat/filters -- --pairs 2000 --seed 7"

A verdict is one of five: the expression is invalid, the message is incomparable (Java throws), true, false, unknown.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from interop.peers import JavaClients, why_unavailable
from orbitmq.errors import InvalidExpression
from orbitmq.filter import compile_sql92
from orbitmq.filter.numbers import Incomparable

BATCH = 500
DIFFERENCES_SHOWN = 20
DEPTH = 4

NAMES = ("a", "b", "c", "$d", "_e", "a1", "TAGS", "region", "notes", "A", "INx")
INTEGERS = ("0", "1", "5", "9", "10", "42", "5L", "7l", "2147483647", "2147483648", "9223372036854775807", "3000000000")
FLOATS = (
    "1.5", "5.", ".5", "5.0", "1e3", "2E-2", "1.5e+2", ".1E1", "0.1", "4.9E-324", "1.7976931348623157E308",
    "2147483648.0", "9.223372036854775807E18", "00.5", "10.0",
)  # fmt: skip
WRONG_NUMBERS = (
    "007",
    "0L",
    "9223372036854775808",
    "0.0",
    "1e999",
    "1e-999",
    "1.5f",
    "5e",
    "0x1F",
    "99999999999999999999L",
)
TEXTS = (
    "''",
    "'5'",
    "'eu'",
    "'us'",
    "'true'",
    "'it''s'",
    "'Grüße'",
    "'5.0'",
    "' '",
    "'''",
    "'\U0001f600'",
    "'e'",
    "'10'",
)
SPACES = (" ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\f", "/* c */", "/***/", "--x\n", "/*a*b*/ ")
WORDS = (
    "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH",
    "=", "<>", ">", ">=", "<", "<=", "(", ")", ",", "+", "-", "LIKE", "!=", "==", "#", "/", "*", "/*", "--", "'", ".",
    "&&", "ſ", "ıs", "é", "\0", '"', ";", "|",
)  # fmt: skip
VALUES = (
    "0", "1", "5", "10", "-5", "+5", "05", "5.0", "5.", ".5", "1e1", " 5", "5 ", "5L", "5f", "5.0d", "0x5", "0x1p3", "0x.8P1d",
    "-0x1p99999", "0x1p-99999", "0x1p2147483648", "NaN", "-NaN", "Infinity", "-Infinity", "nan", "inf", "-0.0", "0.0", "-0",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "1_0",
    "-9223372036854775808", "-9223372036854775809", "0000000000000000000000000005", "٣", "５", "\U0001d7d3", "1e400", "1e-400", "-", "+", "--5",
    "+-5", "true", "TRUE", "tRuE", "True ", "false", "eu", "us", "EU", "e", "ee", "it's", "Grüße", "grüße", "\U0001f600", " ", "  ", "\t5",
    "5\n", "5\u00a0", "5\x1f", "null", "NULL", "x\x01y", "1,5", "1e5f", "1e+5", "1e", "e5", ".", "42", "3000000000", "1.5", "4.9e-324", "1e2147483648", "1e-2147483649",
)  # fmt: skip


class Generator:
    """Random expressions and properties; all of them follow from the seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._choose = self._random.choice

    def pairs(self, count: int) -> Iterator[tuple[str, str]]:
        """Yield expressions with encoded properties; each expression comes with a few messages."""
        expression, messages = "", 0
        for _ in range(count):
            if not messages:
                expression, messages = self.expression(), self._random.randint(1, 6)
            messages -= 1
            yield expression, self.properties()

    def expression(self) -> str:
        """Return an expression: mostly a sound one, else a damaged one, else a heap of words."""
        kind = self._random.random()
        if kind < 0.1:
            return self._join([self._word() for _ in range(self._random.randint(0, 9))])
        words = list(self._either(DEPTH))
        if kind < 0.25:
            self._damage(words)
        expression = self._join(words)
        if kind > 0.97 and expression:
            at = self._random.randrange(len(expression))
            return expression[:at] + self._choose(("", "'", "-", "\n", "9", "L", "x", ".")) + expression[at + 1 :]
        return expression

    def properties(self) -> str:
        """Return encoded properties, some of them odd: twice, empty, or without an end."""
        parts = []
        for _ in range(self._random.choice((0, 1, 2, 4, 6, 8))):
            value = "" if self._random.random() < 0.04 else self._value()
            parts.append(f"{self._choose(NAMES)}\x01{value}")
        if self._random.random() < 0.05:
            parts.insert(self._random.randint(0, len(parts)), self._choose(("", "\x01", "a", "\x01a", "aa\x01")))
        end = "" if self._random.random() < 0.2 else "\x02"
        return "\x02".join(parts) + end

    def _value(self) -> str:
        kind = self._random.random()
        if kind < 0.7:
            return self._choose(VALUES)
        if kind < 0.85:
            return str(self._random.randint(-12, 12))
        if kind < 0.95:
            return repr(self._random.uniform(-20, 20))
        return "".join(self._choose("0123456789+-.eEfdxXpP aNIu\u0663") for _ in range(self._random.randint(1, 6)))

    def _damage(self, words: list[str]) -> None:
        for _ in range(self._random.randint(1, 2)):
            at = self._random.randrange(len(words))
            match self._random.randrange(4):
                case 0 if len(words) > 1:
                    del words[at]
                case 1:
                    words[at] = self._word()
                case 2:
                    words.insert(at, self._word())
                case _:
                    words.append(self._word())

    def _join(self, words: Sequence[str]) -> str:
        """Join words, here and there without a space."""
        parts = [self._case(word) + (self._choose(SPACES) if self._random.random() < 0.9 else "") for word in words]
        return "".join(parts)

    def _case(self, word: str) -> str:
        if word in WORDS and word.isascii():
            return self._choose((word, word, word.lower(), word.capitalize()))
        return word

    def _word(self) -> str:
        return self._choose(self._choose((WORDS, NAMES, INTEGERS, FLOATS, WRONG_NUMBERS, TEXTS)))

    def _either(self, depth: int) -> list[str]:
        words = self._both(depth)
        while self._random.random() < 0.2:
            words += ["OR", *self._both(depth)]
        return words

    def _both(self, depth: int) -> list[str]:
        words = self._equality(depth)
        while self._random.random() < 0.2:
            words += ["AND", *self._equality(depth)]
        return words

    def _equality(self, depth: int) -> list[str]:
        words = self._comparison(depth)
        match self._random.randrange(10):
            case 0 | 1:
                words += [self._choose(("=", "<>")), *self._comparison(depth)]
            case 2:
                words += ["IS", *self._choose(((), ("NOT",))), "NULL"]
            case 3 if self._random.random() < 0.2:
                words += ["=", *self._comparison(depth), "=", *self._comparison(depth)]
        return words

    def _comparison(self, depth: int) -> list[str]:
        kind = self._random.randrange(12)
        left = [self._choose(NAMES)] if self._random.random() < 0.8 else self._unary(depth)
        inverted = list(self._choose(((), ("NOT",))))
        if kind < 5:
            return [*left, self._choose((">", ">=", "<", "<=", "=", "<>")), *self._operand(depth)]
        if kind == 5:
            return [*left, *inverted, self._choose(("CONTAINS", "STARTSWITH", "ENDSWITH")), self._choose(TEXTS)]
        if kind == 6:
            return [*left, *inverted, "BETWEEN", *self._operand(depth), "AND", *self._operand(depth)]
        if kind == 7:
            texts = [self._choose(TEXTS) for _ in range(self._random.randint(1, 7))]
            listed = [word for text in texts for word in (",", text)][1:]
            return [*left, *inverted, "IN", "(", *listed, ")"]
        if kind == 8:
            return self._unary(depth)
        return [*left, self._choose((">", "<=", "=", "<>")), self._choose((*INTEGERS, *FLOATS))]

    def _operand(self, depth: int) -> list[str]:
        kind = self._random.random()
        if kind < 0.35:
            return [self._choose(INTEGERS)]
        if kind < 0.55:
            return [self._choose(FLOATS)]
        if kind < 0.7:
            return [self._choose(NAMES)]
        if kind < 0.75:
            return [self._choose(TEXTS)]
        if kind < 0.78:
            return [self._choose(WRONG_NUMBERS)]
        return self._unary(depth)

    def _unary(self, depth: int) -> list[str]:
        kind = self._random.random()
        if kind < 0.15:
            return [self._choose(("NOT", "NOT", "-", "+")), *self._unary(depth)]
        if kind < 0.25:
            return ["-", self._choose((*INTEGERS, *FLOATS, *NAMES))]
        if kind < 0.55 and depth > 0:
            return ["(", *self._either(depth - 1), ")"]
        return [self._choose((*NAMES, "TRUE", "FALSE", "NULL", *INTEGERS[:4], *TEXTS[:3], *FLOATS[:3]))]


def is_true(expression: str, properties: str) -> str:
    """Return our verdict, in Java's words."""
    try:
        compiled = compile_sql92(expression)
    except InvalidExpression:
        return "invalid"
    try:
        found = compiled.is_true(properties.encode())
    except Incomparable:
        return "incomparable"
    assert compiled.matches(properties.encode()) is (found is True)
    return {True: "true", False: "false", None: "null"}[found]


class Comparison:
    """Java's filter and ours, asked the same."""

    def __init__(self, java: JavaClients) -> None:
        self._java = java
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []

    def run(self, generator: Generator, count: int) -> None:
        """Compare the verdicts on the generator's next pairs."""
        pairs: list[tuple[str, str]] = []
        for pair in generator.pairs(count):
            pairs.append(pair)
            if len(pairs) == BATCH:
                self._compare(pairs)
                pairs.clear()
            if len(self.differences) >= DIFFERENCES_SHOWN:
                return
        self._compare(pairs)

    def _compare(self, pairs: list[tuple[str, str]]) -> None:
        theirs = self._java.call("filter.evaluate", pairs=pairs)
        for (expression, properties), java in zip(pairs, theirs, strict=True):
            ours = is_true(expression, properties)
            self.counts[ours] += 1
            if ours != java:
                self.differences.append(f"{expression!r} on {properties!r}: Java {java}, ours {ours}")


def main() -> None:
    """Compare and print what was done; exit code 1 when there is a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if (reason := why_unavailable()) is not None:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder:
        java = JavaClients(Path(folder))
        comparison = Comparison(java)
        comparison.run(Generator(options.seed), options.pairs)
        java.close()
    print(f"seed {options.seed}: {comparison.counts.total()} pairs, by verdict {dict(comparison.counts)}")
    for difference in comparison.differences:
        print(difference)
    total = comparison.counts.total()
    print(f"{total:,} pairs, seed {options.seed}: {len(comparison.differences)} differences")
    sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
