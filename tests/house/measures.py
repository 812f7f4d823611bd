"""Countable properties of the repository: circles, sizes of packages, comments, docstrings, references, tests, commits."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import grimp
import pytest

import tiers

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "orbitmq"
UNIT = ROOT / "tests" / "unit"
PACKAGES = ("orbitmq", "pyspark_rocketmq")
SUBJECT_LENGTH_MAX = 72
RULE_SINCE = "91ca469"
"""The last commit before the rule on the length of subjects."""
PACKAGE_SIZE_MIN = 3
"""Modules, or packages below it. Fewer are modules of the package above."""
OWN_TEST_LINES_MIN = 60
"""Smaller modules may be tested in a neighbour's file."""
OPENINGS = re.compile(r'(#.*\n|\s)*r?"""(What|How|Who|Where)\b')
BOOLEANS = re.compile(r'"""(Say|Tell|Return) ' "whether")
"""Docstrings of booleans begin with "Return True if"."""
UNREACHABLE = re.compile(r"\bfacts? (of the requests?\b|[A-Z][0-9])|\b[ABCDNRS][0-9]{1,2}(-[0-9]+)?\b")
"""A row of a plan or of a collection of facts that lies outside this repository."""
NAMES_LIKE_REFERENCES = re.compile(r"\bC1\b|\bB6\b")
"""A cluster's name in tests; an airline."""
FORBIDDEN = re.compile(
    r"(?<![a-z])(nobody|somebody|whoever|everybody|anybody|park(s|ed|ing)?|anew|at[ _]once|beside|in hand|troubles?"
    r"|long[ _]way|put off|lined up|sieve|young|patience|owe[sd]|crowded|soundness|condemned|vouch(es|ed)?|light (queue|topic)s?"
    r"|(?<!there )(is|was) no (address|file|host|JSON|key|list|member|message|name|number|offset|record|setting|store|text|topic|user))(?![a-z])",
    re.IGNORECASE,
)
"""Words that name no thing of the field, or a metaphor; the glossary says what stands in their place."""
KEPT_NAMES = re.compile(
    r"parkedPull(s|sMax|sSizeMax|Count)\b|parked_pulls\w*|parked_pops|store_trouble|\"?trouble( string)?\"|`\w+`"
)
"""Names that users have in settings, metrics and files; text that is quoted."""
READ_BY_PEOPLE = (
    "src",
    "tests",
    "docs",
    "benchmarks",
    "examples",
    "scripts",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
)


def import_circles() -> list[list[str]]:
    """Return the groups of modules that import one another in circles, imports for types included."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False)
    circles = []
    left = set(graph.modules)
    while left:
        module = left.pop()
        both = (graph.find_upstream_modules(module) & graph.find_downstream_modules(module)) | {module}
        left -= both
        if len(both) > 1:
            circles.append(sorted(both))
    return sorted(circles)


def small_packages() -> dict[str, int]:
    """Return the packages with fewer modules and packages in them than a package needs, and how many they have."""
    packages = [path.parent for path in SOURCE.rglob("__init__.py")]
    sizes = {
        _dotted(package): len(list(package.glob("[!_]*.py")) + list(package.glob("*/__init__.py")))
        for package in packages
    }
    return {name: size for name, size in sorted(sizes.items()) if size < PACKAGE_SIZE_MIN}


def source_size() -> tuple[int, int, int]:
    """Return how many packages, modules and lines src has."""
    files = [path for name, path in ((name, ROOT / name) for name in _tracked("src")) if name.endswith(".py")]
    packages = sum(path.name == "__init__.py" for path in files)
    return packages, len(files), sum(len(path.read_text().splitlines()) for path in files)


def comment_share(folder: Path = SOURCE) -> float:
    """Return the share of lines with a comment among all lines that are not blank."""
    comments = lines = 0
    for path in folder.rglob("*.py"):
        with tokenize.open(path) as file:
            tokens = list(tokenize.generate_tokens(file.readline))
        comments += sum(token.type == tokenize.COMMENT and not _is_directive(token.string) for token in tokens)
        lines += sum(bool(line.strip()) for line in path.read_text().splitlines())
    return comments / lines


def vague_openings() -> list[str]:
    """Return the Python files whose docstring opens with What, How, Who or Where, or one in them with "Say whether"."""
    texts = ((name, path.read_text()) for path, name in _python_files())
    return [name for name, text in texts if OPENINGS.match(text) or BOOLEANS.search(text)]


def unreachable_references() -> list[str]:
    """Return the lines that point to something that a reader of the repository cannot open, as path:line."""
    return [
        f"{name}:{number}"
        for name in _tracked(*READ_BY_PEOPLE)
        if not name.endswith((".json", ".bin", ".png")) and not name.startswith("tests/house/")
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), start=1)
        if UNREACHABLE.search(NAMES_LIKE_REFERENCES.sub("", line))
    ]


def forbidden_words() -> list[str]:
    """Return the names, comments and docstrings, texts of src and lines of pages that have a forbidden word, as path:line."""
    found = [
        f"{name}:{line}: {word}"
        for path, name in _python_files()
        if not name.startswith("tests/house/")
        and forbidden_words_of(path.read_text())  # most have none: no need to parse
        for line, text in _words_of(path, with_texts=name.startswith("src/"))
        for word in forbidden_words_of(text)
    ]
    pages = [
        name
        for name in _tracked("docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/README.md")
        if name.endswith(".md")
    ]
    return found + [
        f"{name}:{number}: {word}"
        for name in pages
        if not name.startswith("docs/adr/") and name != "docs/explain/glossary.md"
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1)
        for word in forbidden_words_of(line)
    ]


def forbidden_words_of(text: str) -> list[str]:
    """Return the forbidden words of a text or a name, whatever its case."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", KEPT_NAMES.sub("", text))
    return [match[0] for match in FORBIDDEN.finditer(spaced)]


def _words_of(path: Path, *, with_texts: bool) -> Iterator[tuple[int, str]]:
    """Yield names, comments and docstrings with their lines, and all other texts where they are read, too."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            is_docstring = token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""'))
            if token.type in (tokenize.NAME, tokenize.COMMENT):
                yield token.start[0], token.string
            elif is_docstring or (with_texts and token.type == tokenize.STRING):
                yield from enumerate(token.string.splitlines(), start=token.start[0])


def modules_without_test() -> list[str]:
    """Return the modules that are not small and have no test file of their name in the folder that mirrors theirs."""
    modules = sorted(path for path in SOURCE.rglob("*.py") if not path.name.startswith("__"))
    large = [path.relative_to(SOURCE) for path in modules if len(path.read_text().splitlines()) >= OWN_TEST_LINES_MIN]
    return [str(path) for path in large if not (UNIT / path.parent / f"test_{path.stem.strip('_')}.py").exists()]


def tests_by_tier() -> dict[str, int]:
    """Return how many tests each tier has."""
    counts = Counter[str]()

    class Collected:
        """Counts what pytest collects."""

        def pytest_collection_finish(self, session: pytest.Session) -> None:
            counts.update(tiers.tier_in(item.keywords) for item in session.items)

    with redirect_stdout(io.StringIO()):
        pytest.main(
            ["--collect-only", "-q", "-m", "", "--assert=plain", "-p", "no:cacheprovider"], plugins=[Collected()]
        )
    return {tier: counts[tier] for tier in tiers.TIERS}


def long_subjects() -> list[str]:
    """Return the subjects of commits since the rule that are longer than it allows."""
    subjects = _git("log", "--format=%s", f"{RULE_SINCE}..HEAD")
    return [subject for subject in subjects if len(subject) > SUBJECT_LENGTH_MAX]


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).parts)


def _is_directive(comment: str) -> bool:
    return comment.startswith(("# type:", "# noqa", "# fmt:"))


def _python_files() -> Iterator[tuple[Path, str]]:
    for name in _tracked("src", "tests", "benchmarks", "examples"):
        if name.endswith(".py"):
            yield ROOT / name, name


def _tracked(*folders: str) -> list[str]:
    return [name for name in _git("ls-files", *folders) if (ROOT / name).is_file()]


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
