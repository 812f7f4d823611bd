"""Make the documentation's site: the pages of the repository, with the Python API out of the docstrings.

python scripts/make_docs.py [FOLDER]    # out, unless another is named; the site is in its folder `site`

The pages are copied to FOLDER/pages with the folders that they have in the repository, so that links between them hold in both
places. The navigation is the tables of docs/README.md. A broken link fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| \[([^]]+)\]\(([^)]+)\)", re.MULTILINE)


def main(out: Path) -> int:
    """Copy the pages, write the settings, and run the generator; return its exit code."""
    broken = copy_pages(out / "pages")
    if broken:
        print("\n".join(broken), file=sys.stderr)
        return 1
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    settings |= {"docs_dir": "pages", "site_dir": "site", "nav": navigation()}
    settings["plugins"][1]["mkdocstrings"]["handlers"]["python"]["paths"] = [str(ROOT / "src")]
    file = out / "site.yml"
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean", "-f", str(file)]
    return subprocess.run(command, check=False).returncode


def copy_pages(folder: Path) -> list[str]:
    """Copy docs/, the README, and every file that a page links to, from page to page; return the links to no file."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder / "docs")
    waiting = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    seen = set(waiting)
    broken: list[str] = []
    while waiting:
        page = waiting.pop()
        copy = folder / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
        targets = LINK.findall(CODE.sub("", page.read_text())) if page.suffix == ".md" else []
        for target in targets:
            file = (page.parent / target).resolve()
            if "://" in target or file in seen:
                continue
            if file.is_file() and file.is_relative_to(ROOT):
                waiting.append(file)
                seen.add(file)
            else:
                broken.append(f"{page.relative_to(ROOT)}: {target} does not exist")
    return broken


def navigation() -> list[Any]:
    """Return the tree of pages: the README, and a part for each heading of docs/README.md with the pages in its table."""
    index = ROOT / "docs/README.md"
    parts: list[Any] = [{"orbitmq": "README.md"}, {"Documentation": "docs/README.md"}]
    for part in index.read_text().split("\n## ")[1:]:
        title = part.partition("\n")[0]
        rows = [(name, index.parent / target) for name, target in ROW.findall(part) if "#" not in target]
        parts.append({title: [{name: str(target.resolve().relative_to(ROOT))} for name, target in rows]})
    return parts


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out").resolve()))
