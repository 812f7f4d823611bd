"""A release: its files, and the workflows and hooks that make and check them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import orbitmq

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def workflow(name: str) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())
    return document


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_the_package_says_the_version_that_is_published() -> None:
    assert orbitmq.__version__ == PROJECT["version"]


def test_the_tests_workflow_runs_the_script_of_ci_on_every_supported_python() -> None:
    (job,) = workflow("tests")["jobs"].values()
    assert commands(job) == [".ci/run"]
    supported = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert job["strategy"]["matrix"]["python"] == supported


def test_a_release_is_published_only_by_a_tag_after_the_tests_have_passed() -> None:
    release = workflow("release")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    jobs = release["jobs"]
    tests, make = commands(jobs["build"])
    assert tests == ".ci/run"
    assert make.startswith("make release ")
    assert (jobs["publish"]["needs"], jobs["page"]["needs"]) == ("build", "publish")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_may_only_read_unless_they_say_otherwise_and_no_step_joins_foreign_text_into_a_shell(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert document["permissions"] == {"contents": "read"}
    for job in document["jobs"].values():
        assert not [command for command in commands(job) if "${{ github.event" in command or "head_ref" in command]


def test_the_hook_of_pre_commit_runs_make_check() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (hook,) = repository["hooks"]
    assert (hook["entry"], hook["language"]) == ("make --no-print-directory check", "system")


def test_a_tag_that_is_not_the_version_fails_before_anything_is_made(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts/make_release.py", scripts)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [sys.executable, str(scripts / "make_release.py"), "--tag", "v99"]
    made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert made.returncode == 1
    assert made.stderr == f"tag v99: expected v{PROJECT['version']}, the version of pyproject.toml\n"
    assert not (tmp_path / "dist").exists()


@pytest.mark.proof
def test_the_files_of_a_release_are_made_and_work(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tree)], check=True, timeout=60)
    made = subprocess.run(
        [sys.executable, "scripts/make_release.py"], cwd=tree, capture_output=True, text=True, timeout=280, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    dist, version = tree / "dist", PROJECT["version"]
    sums = dict(line.split("  ")[::-1] for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in dist.iterdir() if file.name != "SHA256SUMS"
    }
    assert {f"orbitmq-{version}-py3-none-any.whl", f"orbitmq-{version}.tar.gz", "orbitmq.pyz"} <= sums.keys()
    bill = json.loads((dist / f"orbitmq-{version}.cdx.json").read_text())
    named = {component["name"].lower() for component in bill["components"]}
    assert bill["metadata"]["component"]["name"] == "orbitmq"
    assert {"orjson", "uvloop", "lz4"} <= named
    assert not named & {"pip", "setuptools", "pyspark", "pytest", "orbitmq"}
    environment = os.environ | {"PEX_ROOT": str(tmp_path / "pex")}
    said = subprocess.check_output([dist / "orbitmq.pyz", "--version"], env=environment, text=True, timeout=120)
    assert said == f"orbitmq {version}\n"
    with zipfile.ZipFile(dist / f"orbitmq-{version}-py3-none-any.whl") as wheel:
        assert sum(entry.compress_size for entry in wheel.infolist()) <= 2_000_000
