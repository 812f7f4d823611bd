"""Cells of a notebook run as its kernel runs them: one after another in a running event loop, `await` allowed.

python notebook.py CELLS.json; the cells find nothing but what cells before them have made.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
from pathlib import Path
from typing import Any


async def run_cells(cells: list[str]) -> None:
    """Run the cells; what one of them raises ends the notebook."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        code = compile(cell, f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result


if __name__ == "__main__":
    asyncio.run(run_cells(json.loads(Path(sys.argv[1]).read_text())))
