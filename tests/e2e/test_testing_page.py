"""The page about tests: what it shows passes, as it stands."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real

PAGE = Path(__file__).parents[2] / "docs/howto/test-your-program.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.interop
def test_the_tests_of_the_page_pass(tmp_path):
    for number, block in enumerate(BLOCKS):
        if "async def" not in block:
            (tmp_path / f"test_{number}.py").write_text(block)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "3 passed" in done.stdout) == (0, True), done.stdout


def test_the_asynchronous_test_of_the_page_passes():
    (block,) = (block for block in BLOCKS if "async def" in block)
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    asyncio.run(names["test_a_broker_may_restart"]())
