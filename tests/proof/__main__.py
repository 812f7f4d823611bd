"""`python -m proof`: the program with the rows of this repository."""

from __future__ import annotations

import sys
from pathlib import Path

from proof.needs import NEEDS
from proof.program import Setting, main
from proof.registry import all_rows

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Setting(root=ROOT, rows=all_rows(ROOT), needs=NEEDS)))
