"""The source tree as git knows it: its commit, whether it has changes, and which files differ from another commit."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

RESULTS = "benchmarks/results"
"""Files that a proof itself writes: they make no tree dirty."""


class GitError(Exception):
    """A git command that failed, with what it printed."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The state of the source tree. `digest` is the same for two runs only when all files are."""

    commit: str
    is_dirty: bool
    digest: str


def state_of(root: Path) -> Tree:
    """Return the state of the tree at `root`."""
    commit = _git(root, "rev-parse", "HEAD").strip()
    changes = _git(root, "diff", "HEAD", "--binary", "--", ".", f":(exclude){RESULTS}")
    added = [path for path in _untracked(root) if not path.startswith(f"{RESULTS}/")]
    digest = hashlib.sha256((commit + changes).encode())
    for path in added:
        digest.update(path.encode() + b"\0" + _content(root / path))
    return Tree(commit[:12], bool(changes or added), digest.hexdigest()[:16])


def _content(path: Path) -> bytes:
    """Return what git would add of a path: a link's target, a file's bytes, of a repository within nothing."""
    if path.is_symlink():
        return os.fsencode(path.readlink())
    return path.read_bytes() if path.is_file() else b""


def changed_files(root: Path, reference: str | None = None) -> list[str]:
    """Return the files that differ from a commit, those included that are not committed or not yet added.

    Args:
        reference: origin/main where it exists, else HEAD~1, when left out.
    """
    reference = reference or _usual_reference(root)
    changed = _git(root, "diff", "--name-only", "--no-renames", "-z", reference, "--")
    return sorted({*filter(None, changed.split("\0")), *_untracked(root)})


def _usual_reference(root: Path) -> str:
    try:
        _git(root, "rev-parse", "--verify", "--quiet", "origin/main")
    except GitError:
        return "HEAD~1"
    return "origin/main"


def _untracked(root: Path) -> list[str]:
    found = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in found.split("\0") if path]


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise GitError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode("utf-8", "surrogateescape").encode(errors="replace").decode()
