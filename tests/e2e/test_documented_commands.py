"""Every `orbitmq …` that README, CONTRIBUTING and docs show is one that the command line takes."""

import re
import shlex
from pathlib import Path

import pytest

from orbitmq.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CALL = re.compile(r"(?:^|[`|=] ?|\$ |/bin/)orbitmq ([a-z][^`#|\n]*)", re.MULTILINE)
PLACEHOLDERS = re.compile(r"[\[\]…]|\.\.\.")
CALLS = [
    pytest.param(PLACEHOLDERS.sub(" ", words), id=f"{page.name}: {words.strip()}")
    for page in PAGES
    for words in CALL.findall(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("words", CALLS)
def test_a_documented_command_is_taken(words, capfd):
    # Asked for help, a command looks at the names of all its options and does nothing.
    code = main([*shlex.split(words), "--help"])
    assert code == 0, capfd.readouterr().err


def test_there_are_documented_commands():
    assert len(CALLS) > 50
