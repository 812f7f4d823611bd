"""Claims about modules that call themselves pure: import-linter is told to check each of them."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGES = ("orbitmq.wire", "orbitmq.model")
"""Packages that are pure as a whole, without saying so in each module."""


def checked_modules() -> set[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {name for contract in contracts if contract["type"] == "forbidden" for name in contract["source_modules"]}


def self_declared() -> set[str]:
    """Return the modules whose docstring has a sentence that begins with "Pure"."""
    found = set()
    for path in SOURCE.glob("orbitmq/**/*.py"):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if re.search(r"(^|[.:]\s+)Pure\b", text):
            found.add(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
    return found


def is_checked(module: str, checked: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in checked)


def test_each_module_that_calls_itself_pure_is_checked():
    checked, declared = checked_modules(), self_declared()
    assert len(declared) > 40, "the docstrings are not found any more"
    assert sorted(name for name in declared if not is_checked(name, checked)) == []
    assert checked.issuperset(PACKAGES)


def test_both_contracts_forbid_the_same():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    one, two = (contract["forbidden_modules"] for contract in contracts if contract["type"] == "forbidden")
    assert one == two
    assert {"asyncio", "socket", "time", "os", "threading", "random"} <= set(one)
