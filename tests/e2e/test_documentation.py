"""Every page can be found, every link leads somewhere, and every module that a page names is there."""

import importlib
import re
from pathlib import Path

import pytest
from benchmarks import readme

from orbitmq.broker.config import BrokerConfig
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.settings import fields_by_key

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
FOLDERS = ("docs", "benchmarks", "deploy", "examples", "scripts", "src")
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        ROOT / "tests/README.md",
        *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")),
    }
)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
MODULE = re.compile(r"`([\w./-]+\.py)`")
PATH = re.compile(r"`((?:benchmarks|deploy|docs|examples|scripts|src|tests)/[\w./%-]+)`")
ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)
WITNESS = re.compile(r"`([\w./-]+\.py)(?:::(\w+))?(?:\[(\w+)\])?`")
"""A test of the table of requirements: its file, its name, and the scenario that it plays."""
MAKE = re.compile(r"(?:^|`|  )make (?:PYTHON=\S+ )?([a-z-]+)", re.MULTILINE)
DOTTED = re.compile(r"\borbitmq(?!\.pyz)(?:\.\w+)+")
MODULES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("benchmarks", "examples", "src", "tests")
    for path in (ROOT / folder).rglob("*.py")
]

TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


def links(page: Path) -> list[tuple[str, Path, str]]:
    """Return a page's relative links, each as it is written, with its file and its anchor."""
    found = LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    parts = [(link, *link.partition("#")[::2]) for link in found if "://" not in link]
    return [(link, (page.parent / path).resolve() if path else page, anchor) for link, path, anchor in parts]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as GitHub makes them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_a_module(name: str) -> bool:
    """Return True if a name is the end of a module's path: pages leave out what is clear from their subject."""
    return any(f"/{path}".endswith(f"/{name}") for path in MODULES)


def is_importable(dotted: str) -> bool:
    """Return True if a dotted name is a module, or an attribute of one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        return count == len(parts) or hasattr(found, parts[count])
    return False


def test_the_pages_are_found():
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"} <= {page.name for page in PAGES}
    assert len(PAGES) > 20


def test_a_link_leads_to_a_file_that_is_there():
    assert {(page, link) for page in PAGES for link, path, _ in links(page) if not path.exists()} == set()


def test_an_anchor_is_a_heading_of_its_page():
    anchored = {(page, path, anchor) for page in PAGES for _, path, anchor in links(page) if anchor}
    headings = {path: anchors(path) for _, path, _ in anchored if path.suffix == ".md"}
    assert {(page, path, name) for page, path, name in anchored if name not in headings.get(path, {name})} == set()


def test_the_index_links_every_page_of_docs():
    linked = {path for _, path, _ in links(INDEX)}
    # Decisions have an index of their own.
    linked |= {path for _, path, _ in links(DOCS / "adr" / "README.md")}
    missing = {page for page in DOCS.rglob("*.md") if page not in linked} - {INDEX}
    assert {str(page.relative_to(ROOT)) for page in missing} == set()


def test_no_two_decisions_share_a_number():
    numbers = [page.name[:4] for page in (DOCS / "adr").glob("[0-9]*.md")]
    assert sorted(numbers) == sorted(set(numbers))


def test_the_architecture_names_every_package_and_no_other():
    source = ROOT / "src" / "orbitmq"
    packages = {".".join(path.relative_to(source).parent.parts) for path in source.rglob("*/__init__.py")}
    rows = re.findall(
        r"^\| (`.*?`) \|", (DOCS / "explain" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert packages - named == set()
    assert {name for name in named if not is_importable(f"orbitmq.{name}")} == set()


@pytest.mark.parametrize(
    ("pattern", "is_there"),
    [(MODULE, is_a_module), (PATH, lambda name: (ROOT / name).exists()), (DOTTED, is_importable)],
    ids=["module", "path", "dotted name"],
)
def test_what_a_page_names_is_there(pattern, is_there):
    named = {(name, page) for page, text in TEXTS.items() for name in pattern.findall(text)}
    missing = {name for name in dict(named) if not is_there(name)}
    assert {(name, page) for name, page in named if name in missing} == set()


def test_a_make_target_that_a_page_names_is_in_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {(page, name) for page, text in TEXTS.items() for name in MAKE.findall(text) if name not in targets} == set()


def test_each_requirement_has_modules_tests_and_pages_that_are_there():
    page = DOCS / "reference" / "requirements.md"
    rows = [row.split(" | ") for row in ROW.findall(TEXTS[page])]
    rows = [row for row in rows if row[0] != "requirement"]
    assert len(rows) >= 175
    assert {len(row) for row in rows} == {5}
    assert [row for row in rows if not re.match(r"(yes|otherwise|not)\b", row[1])] == []
    modules = {name for row in rows for name in re.findall("`(.+?)`", row[2])}
    assert {name for name in modules if not any((ROOT / top / name).is_file() for top in (".", "src/orbitmq"))} == set()
    assert [row for row in rows if row[3] != "–" and not all(map(WITNESS.fullmatch, row[3].split(", ")))] == []
    assert {text for row in rows for text in WITNESS.findall(row[3]) if not is_a_test(*text)} == set()
    pages = [path for row in rows if row[4] != "–" for path in LINK.findall(row[4]) or [row[4]]]
    assert {path for path in pages if not (page.parent / path.partition("#")[0]).is_file()} == set()


def is_a_test(file: str, name: str, scenario: str) -> bool:
    """Return True if a file below tests has a test, and its folder the scenario; empty ones are not looked for."""
    path = ROOT / "tests" / file
    if not path.is_file() or (name and f"def {name}(" not in path.read_text(encoding="utf-8")):
        return False
    return not scenario or any(f"def {scenario}(" in other.read_text() for other in path.parent.glob("*.py"))


@pytest.mark.parametrize("settings", [BrokerConfig, NameServerConfig])
def test_every_setting_is_named_on_a_page(settings):
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert [key for key in fields_by_key(settings) if f"`{key}" not in text] == []


def test_the_tables_of_kept_figures_are_those_of_the_kept_results():
    for page, table in readme.tables(readme.kept_results()).items():
        text = page.read_text(encoding="utf-8")
        assert readme.rewritten(text, table) == text, "run python -m benchmarks --readme"
