"""Every `orbitmq …` that README, CONTRIBUTING and docs show is one that the command line takes."""

import re
import shlex
from pathlib import Path

from orbitmq.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CALL = re.compile(r"(?:^|[`|=] ?|\$ |/bin/)orbitmq ([a-z][^`#|\n]*)", re.MULTILINE)
PLACEHOLDERS = re.compile(r"[\[\]…]|\.\.\.")
CALLS = {
    PLACEHOLDERS.sub(" ", words): page.name
    for page in PAGES
    for words in CALL.findall(page.read_text(encoding="utf-8"))
}


def test_every_documented_command_is_taken(capfd):
    assert len(CALLS) > 50
    # Asked for help, a command looks at the names of all its options and does nothing.
    refused = {(page, words) for words, page in CALLS.items() if main([*shlex.split(words), "--help"]) != 0}
    assert refused == set(), capfd.readouterr().err
