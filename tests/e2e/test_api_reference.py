"""The Python API reference: every public name is on its page, and the page renders."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import orbitmq

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "python.md"

pytestmark = pytest.mark.real


def test_every_public_name_is_on_the_page() -> None:
    shown = re.findall(r"^::: (\S+)$", PAGE.read_text(), re.MULTILINE)
    public = {f"{getattr(orbitmq, name).__module__}.{name}" for name in orbitmq.__all__}
    assert {name for name in public if not name.startswith("orbitmq.errors.")} - set(shown) == set()
    assert "orbitmq.errors" in shown


def test_the_site_renders_the_docstrings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=240)
    html = (tmp_path / "reference" / "python" / "index.html").read_text()
    assert ":::" not in html
    assert 'id="orbitmq.client.producer.Producer.send"' in html
    assert "RouteNotFound" in html
