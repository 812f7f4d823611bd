"""Print the table of what can be counted in this repository, and with `--list` what was counted."""

from __future__ import annotations

import argparse

import tiers
from house import measures


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="house", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print each thing that was counted, too")
    is_listed = parser.parse_args().list
    rows: dict[str, list[str]] = {
        "import circles between modules": [" - ".join(circle) for circle in measures.import_circles()],
        f"packages with fewer than {measures.PACKAGE_SIZE_MIN} modules": [
            f"{package}: {count}" for package, count in measures.small_packages().items()
        ],
        "docstrings that open with What/How/Who/Where, Say/Tell/Return whether": measures.vague_openings(),
        "words that the glossary replaces": measures.forbidden_words(),
        "references that a reader cannot open": measures.unreachable_references(),
        f"modules of {measures.OWN_TEST_LINES_MIN} lines or more without a test of their name": measures.modules_without_test(),
        f"commit subjects over {measures.SUBJECT_LENGTH_MAX} characters since {measures.RULE_SINCE}": measures.long_subjects(),
    }
    packages, modules, lines = measures.source_size()
    print(f"{'packages, modules and lines in src':<60}{packages:>8}{modules:>8}{lines:>8}")
    print(f"{'comment lines in src':<60}{measures.comment_share():>8.1%}")
    seconds = tiers.durations()["tiers"]
    for tier, count in measures.tests_by_tier().items():
        measured = f"{seconds[tier]:>8.0f} s when they were measured" if tier in seconds else ""
        print(f"{f'tests of the tier {tier}':<60}{count:>8}{measured}")
    for name, found in rows.items():
        print(f"{name:<60}{len(found):>8}")
        if is_listed:
            print(*(f"    {line}" for line in found), sep="\n")


if __name__ == "__main__":
    main()
