"""The page of features names a test in every row, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/spark-features.md"


def test_every_feature_has_its_test():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    named = [re.search(r"`(tests/\S+\.py)`: `(test_\w+)` \|$", row) for row in rows]
    assert len(rows) > 20
    assert [row for row, found in zip(rows, named, strict=True) if found is None] == []
    missing = [found[0] for found in named if found and f"def {found[2]}(" not in (ROOT / found[1]).read_text()]
    assert missing == []
