"""Make what a release is made of, in dist/: wheel, source archive, one-file program, bill of materials, checksums.

python scripts/make_release.py [--tag v1.2.3]    # or: make release; a tag has to be the version's

| file | what it is |
|---|---|
| `orbitmq-VERSION-py3-none-any.whl`, `orbitmq-VERSION.tar.gz` | what PyPI gets |
| `orbitmq.pyz` | the command with dashboard and tools for assistants in one file, for each Python of this machine from 3.11 on |
| `orbitmq-VERSION.cdx.json` | the bill of materials: every package of an empty environment with the wheel in it (CycloneDX) |
| `SHA256SUMS` | for `sha256sum --check` |

The wheel is installed into an empty environment, and its command is run; time and size of that are printed at the end. The tools
come at the versions of scripts/release-tools.txt, into an environment of their own.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
MB = 1_000_000


def main(arguments: list[str]) -> None:
    """Make everything, and print what it weighs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tag")
    tag = parser.parse_args(arguments).tag
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if tag not in (None, f"v{own}"):
        raise SystemExit(f"tag {tag}: expected v{own}, the version of pyproject.toml")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(dist))
    (wheel,) = dist.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        tools, empty = Path(folder, "tools"), Path(folder, "empty")
        make_environment(tools, "-r", str(ROOT / "scripts/release-tools.txt"))
        took_s = make_environment(empty, str(wheel))
        said = subprocess.check_output([empty / "bin/orbitmq", "--version"], text=True)
        if own not in said:
            raise SystemExit(f"orbitmq --version says {said!r}, expected {own}")
        remove_foreign(empty)
        make_bill(tools, empty, dist / f"orbitmq-{own}.cdx.json")
        make_program(tools, wheel, dist / "orbitmq.pyz")
        size = size_of(site_packages(empty))
    files = sorted(dist.iterdir())
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (dist / "SHA256SUMS").write_text(sums)
    for file in files:
        print(f"{file.stat().st_size / MB:8.2f} MB  {file.relative_to(ROOT)}")
    print(f"{size / MB:8.2f} MB  installed from the wheel in {took_s:.1f} s")


def make_environment(folder: Path, *requirements: str) -> float:
    """Make an environment and install into it; return how many seconds pip took."""
    venv.create(folder, with_pip=True)
    began_s = time.monotonic()
    run(str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return time.monotonic() - began_s


def remove_foreign(environment: Path) -> None:
    """Remove what an environment has by itself."""
    command = [environment / "bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def make_bill(tools: Path, environment: Path, target: Path) -> None:
    """Write the packages of an environment with versions and licences."""
    own = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--of", "JSON", "-o", str(target)]
    run(str(tools / "bin/cyclonedx-py"), "environment", str(environment), *own)


def make_program(tools: Path, wheel: Path, target: Path) -> None:
    """Write the command as one file that each Python of this machine runs."""
    pythons = [found for version in VERSIONS if (found := interpreter(version))]
    print("orbitmq.pyz runs on", ", ".join(version for version in VERSIONS if interpreter(version)))
    chosen = [word for python in pythons for word in ("--python", python)]
    what = [f"orbitmq[dashboard,mcp] @ {wheel.as_uri()}", "--constraints", str(ROOT / "constraints.txt")]
    run(
        str(tools / "bin/pex"),
        *what,
        *chosen,
        "--pip-version",
        "25.3",
        "-c",
        "orbitmq",
        "--venv",
        "--sh-boot",
        "-o",
        str(target),
    )


def interpreter(version: str) -> str | None:
    """Return the path of a Python of a version that runs; a version manager's shim may be there and not run."""
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode:
        return None
    return found


def site_packages(environment: Path) -> Path:
    """Return the folder of an environment's packages."""
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


def size_of(packages: Path) -> int:
    """Return how many bytes are installed."""
    return sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())


def run(*words: str) -> None:
    """Run a command at the versions of constraints.txt; its failure ends this program."""
    environment = os.environ | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    if subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode:
        raise SystemExit(f"failed: {' '.join(words)}")


if __name__ == "__main__":
    main(sys.argv[1:])
