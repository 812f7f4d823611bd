"""A pytest plugin for runs with a mutant: the tests that most probably notice it come first, and no failing example is made smaller."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

import pytest
from hypothesis import Phase, settings

MODULE = "ORBITMQ_MUTATED_MODULE"
"""The environment variable with the path of the mutated module below src/orbitmq."""


def pytest_configure() -> None:
    """Take hypothesis' settings of the tests, without the search for the smallest failing example."""
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", settings.get_profile("orbitmq"), phases=phases, database=None)
    settings.load_profile("mutants")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the module's own name first, then those of its package's name, then its neighbours."""
    module = PurePath(os.environ[MODULE])
    items.sort(key=lambda item: distance(module, item.path))


def distance(module: PurePath, test: Path) -> int:
    """Return how far a test is from a module: less is nearer."""
    folder = "/".join(["", "tests", "unit", *module.parts[:-1]])
    own_folder = str(test.parent).endswith(folder)
    if test.stem == f"test_{module.stem}":
        return 0 if own_folder else 1
    if len(module.parts) > 1 and test.stem == f"test_{module.parts[-2]}":
        return 2
    return 3 if own_folder else 4
