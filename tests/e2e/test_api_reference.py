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


@pytest.mark.interop
def test_the_site_has_every_page_and_renders_the_docstrings(tmp_path: Path) -> None:
    assert make_docs(ROOT, tmp_path) == ""
    html = (tmp_path / "site/docs/reference/python/index.html").read_text()
    assert ":::" not in html
    assert 'id="orbitmq.client.producer.Producer.send"' in html
    assert "RouteNotFound" in html
    for page in (ROOT / "docs").rglob("*.md"):
        folder = page.relative_to(ROOT).parent if page.stem == "README" else page.relative_to(ROOT).with_suffix("")
        assert (tmp_path / "site" / folder / "index.html").exists()


@pytest.mark.interop
@pytest.mark.parametrize(
    "link", ["[gone](gone.md)", "[gone](README.md#gone)", "[gone](../gone/file.json)", "![gone](images/gone.png)"]
)
def test_a_broken_link_fails_the_site(tmp_path: Path, link: str) -> None:
    for name in ("scripts/make_docs.py", "mkdocs.yml"):
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_text((ROOT / name).read_text())
    (tmp_path / "src").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# One\n\n[two](docs/README.md#three)\n")
    (tmp_path / "docs/README.md").write_text("# Two\n\n## Three\n\n[one](../README.md)\n")
    assert make_docs(tmp_path, tmp_path / "out") == ""
    (tmp_path / "README.md").write_text(f"# One\n\n{link.replace('](', '](docs/', 1) if 'README' in link else link}\n")
    assert "does not exist" in make_docs(tmp_path, tmp_path / "out")


def make_docs(root: Path, out: Path) -> str:
    """Make a tree's site in a folder; return what went wrong."""
    command = [sys.executable, "scripts/make_docs.py", str(out)]
    made = subprocess.run(command, cwd=root, check=False, timeout=240, capture_output=True, text=True)
    return "" if made.returncode == 0 else made.stdout + made.stderr
