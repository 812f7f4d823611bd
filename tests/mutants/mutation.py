"""The mutations of one source file: which places can be broken, and the text of each broken file. Pure.

Broken are: comparisons (`<` and `<=` exchanged, the others turned round), `and`/`or`, `not`, conditions without either,
numbers (one more), `True`/`False` (defaults as well), `+`/`-`, results (emptied), calls and `raise` that are statements
(dropped). Left alone is what no test should notice: log lines, `__repr__`, annotations, decorators, assertions, and the
time-outs and limits that are module constants: a test that repeats such a number proves nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ADDITIONS: dict[type[ast.operator], tuple[str, str]] = {ast.Add: (r"\+", "-"), ast.Sub: ("-", "+")}
EMPTY = {
    "int": "0",
    "float": "0.0",
    "str": '""',
    "bytes": 'b""',
    "list": "[]",
    "dict": "{}",
    "set": "set()",
    "frozenset": "frozenset()",
    "Iterator": "iter(())",
    "Iterable": "()",
    "Sequence": "()",
    "Collection": "()",
    "Mapping": "{}",
}
"""An empty result by the name of its type; `None` for all others."""
LOGGERS = {"log", "logger", "warnings"}
UNSEEN_KEYWORDS = {"repr", "help", "show_default", "no_args_is_help", "kw_only", "frozen", "slots"}
CHOSEN_BY_FEEL = re.compile(r"_?[A-Z0-9_]+_(S|MS|NS|MAX|MIN|LIMIT)$")
"""The names of module constants whose exact number no test should repeat."""
LARGE_SIZE = re.compile(r"_?[A-Z0-9_]*SIZE$")
LARGE_SIZE_MIN = 1024
"""A size of less is part of a format; one of that many bytes or more is chosen by feel as well."""
MILLIS_PER_SECOND = 1000
"""Left alone in products and quotients: no test should measure a thousandth of a time-out."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken place of one file."""

    line: int
    function: str
    """Qualified name of the class or function around it; empty at the top of the module."""
    before: str
    """The line, or lines joined to one, as they are; white space between words is one blank."""
    after: str
    start: int
    end: int
    """The bytes of the source between both are replaced."""
    replacement: str

    def applied_to(self, source: bytes) -> bytes:
        """Return the broken source."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]


def mutants_of(source: bytes) -> list[Mutant]:
    """Return all mutants of a module in the order of their places."""
    tree = ast.parse(source)
    finder = _Finder(source)
    finder.visit(tree)
    edits = sorted(set(finder.edits))
    return [_mutant(source, *edit) for edit in edits]


def _mutant(source: bytes, start: int, end: int, replacement: str, function: str) -> Mutant:
    first = source.rfind(b"\n", 0, start) + 1
    rest = source.find(b"\n", end)
    rest = len(source) if rest < 0 else rest
    return Mutant(
        line=source.count(b"\n", 0, start) + 1,
        function=function,
        before=_one_line(source[first:rest]),
        after=_one_line(source[first:start] + replacement.encode() + source[end:rest]),
        start=start,
        end=end,
        replacement=replacement,
    )


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


class _Finder(ast.NodeVisitor):
    """Walks over a module and collects edits: start, end, replacement, and the function around it."""

    def __init__(self, source: bytes) -> None:
        self.edits: list[tuple[int, int, str, str]] = []
        self._source = source
        self._lines = [0, *(match.end() for match in re.finditer(b"\n", source))]
        self._scope: list[str] = []
        self._returns: list[ast.expr | None] = []

    def _place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _edit(self, start: int, end: int, replacement: str) -> None:
        self.edits.append((start, end, replacement, ".".join(self._scope)))

    def _replace(self, node: ast.expr | ast.stmt, replacement: str) -> None:
        self._edit(*self._place(node), replacement)

    def _between(self, left: ast.expr, right: ast.expr, operator: str, replacement: str) -> None:
        """Replace the operator between two operands."""
        start, end = self._place(left)[1], self._place(right)[0]
        word = rf"\b{operator}\b" if operator[0].isalpha() else operator
        if (found := re.compile(word.encode()).search(self._source, start, end)) is not None:
            self._edit(found.start(), found.end(), replacement)

    # What is left alone

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave f-strings alone: nearly all are messages, and Python 3.11 does not know the places inside."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions alone: they are about our own mistakes and may never be seen to fail."""

    def visit_arguments(self, node: ast.arguments) -> None:
        """Look at defaults, not at annotations."""
        for default in [*node.defaults, *node.kw_defaults]:
            if default is not None:
                self.visit(default)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Look at the value, not at the annotation."""
        self._visit_assigned(node.target, node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Look at the value."""
        self._visit_assigned(node.targets[0], node.value)
        for target in node.targets:
            self.visit(target)

    def _visit_assigned(self, target: ast.expr, value: ast.expr | None) -> None:
        by_feel = not self._scope and isinstance(target, ast.Name) and _is_by_feel(target.id, value)
        if value is not None and not by_feel:
            self.visit(value)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Look at arguments by name, but for those that only change what people read."""
        if node.arg not in UNSEEN_KEYWORDS:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Look at the body."""
        self._within(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Look at the defaults and the body."""
        if node.name == "__repr__":
            return
        self._scope.append(node.name)
        self.visit(node.args)
        self._scope.pop()
        self._returns.append(node.returns)
        self._within(node.name, node.body)
        self._returns.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Look at the defaults and the body."""
        self.visit_FunctionDef(node)

    def _within(self, name: str, body: list[ast.stmt]) -> None:
        self._scope.append(name)
        for statement in body:
            self.visit(statement)
        self._scope.pop()

    # What is broken

    def visit_If(self, node: ast.If) -> None:
        """Turn the condition round."""
        named = {name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)}
        if named & {"TYPE_CHECKING", "__name__"} or (not node.orelse and all(map(_is_log_line, node.body))):
            return
        self._turn(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """Turn the condition round."""
        self._turn(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Turn the condition round."""
        self._turn(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Turn the filters round."""
        for condition in node.ifs:
            self._turn(condition)
        self.generic_visit(node)

    def _turn(self, condition: ast.expr) -> None:
        """Turn a condition round that has no operator of its own to turn."""
        negated = isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not)
        if negated or isinstance(condition, ast.Compare | ast.BoolOp | ast.Constant):
            return
        start, end = self._place(condition)
        self._edit(start, end, f"not ({self._source[start:end].decode()})")

    def visit_Compare(self, node: ast.Compare) -> None:
        """Move the bound of an order by one; turn any other comparison round."""
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self._between(left, right, *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Exchange `and` and `or`."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave out `not`."""
        if isinstance(node.op, ast.Not):
            start = self._place(node)[0]
            found = re.compile(rb"not\s*").match(self._source, start)
            assert found is not None
            self._edit(start, found.end(), "")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Exchange `+` and `-`, but not where texts are joined."""
        joined = any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(side) for side in _sides(node))
        if type(node.op) in ADDITIONS and not joined:
            self._between(node.left, node.right, *ADDITIONS[type(node.op)])
        scales = isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv)
        for side in (node.left, node.right):
            if not (scales and isinstance(side, ast.Constant) and side.value == MILLIS_PER_SECOND):
                self.visit(side)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Exchange `+=` and `-=`."""
        if type(node.op) in ADDITIONS and not isinstance(node.value, ast.JoinedStr) and not _is_text(node.value):
            old, new = ADDITIONS[type(node.op)]
            self._between(node.target, node.value, f"{old}=", f"{new}=")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Add one to numbers, turn booleans round."""
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int | float):
            start, end = self._place(node)
            written = self._source[start:end].decode()
            new = hex(node.value + 1) if written.startswith("0x") else str(node.value + 1)  # type: ignore[arg-type]
            self._edit(start, end, new)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Drop calls whose results are not used."""
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Constant) or _is_log_line(node):
            return
        if isinstance(call, ast.Call):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Drop refusals."""
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(raised, ast.Name) and raised.id in {"AssertionError", "NotImplementedError"}:
            return
        self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """Empty the result."""
        if node.value is None:
            return
        returns = self._returns[-1]
        kind = "" if returns is None else ast.unparse(returns)
        if kind == "bool":
            self._turn(node.value)
        else:
            empty = EMPTY.get(kind.partition("[")[0], "None")
            if not isinstance(node.value, ast.Constant) and ast.unparse(node.value) != empty:
                self._replace(node.value, empty)
        self.generic_visit(node)


def _root(node: ast.expr) -> str:
    """Return the first name of a dotted one."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id.removeprefix("_") if isinstance(node, ast.Name) else ""


def _is_log_line(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _root(node.value.func) in LOGGERS


def _is_by_feel(name: str, value: ast.expr | None) -> bool:
    return bool(CHOSEN_BY_FEEL.match(name) or (LARGE_SIZE.match(name) and _number_of(value) >= LARGE_SIZE_MIN))


def _number_of(value: ast.expr | None) -> int:
    """Return the number that a product of numbers makes, 0 for anything else."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return _number_of(value.left) * _number_of(value.right)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else 0


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _sides(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the operands of a chain of operators."""
    if isinstance(node, ast.BinOp):
        yield from _sides(node.left)
        yield from _sides(node.right)
    else:
        yield node
