"""The wheel: its files, and the command in a fresh environment."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_it_holds_every_module_of_the_tree_and_the_mark_of_typed_packages(wheel):
    names = set(wheel.namelist())
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert modules - names == set()
    assert "orbitmq/py.typed" in names


def test_it_is_pure_and_small_and_brings_no_tests(wheel):
    assert wheel.filename.endswith("-py3-none-any.whl")
    assert sum(entry.compress_size for entry in wheel.infolist()) < 5_000_000
    assert [
        name for name in wheel.namelist() if name.startswith(("tests/", "benchmarks/", "examples/", "scripts/"))
    ] == []


def test_it_announces_the_command_and_the_fixtures(wheel):
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    text = wheel.read(entry_points).decode()
    assert "orbitmq = orbitmq.cli.main:main" in text
    assert "orbitmq = orbitmq.testing.pytest_plugin" in text


def test_the_spark_extra_brings_what_the_connector_needs_and_nothing_of_the_examples(wheel):
    (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    requirements = re.findall(
        r"^Requires-Dist: ([\w-]+).*extra == 'spark'$", wheel.read(metadata).decode(), re.MULTILINE
    )
    assert sorted(requirements) == ["matplotlib", "numpy", "pyarrow", "pyspark"]


def test_the_licence_travels_with_it(wheel):
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
