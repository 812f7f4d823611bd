import subprocess
import sys

import pytest

import orbitmq
from orbitmq import blocking


def test_the_blocking_classes_have_the_names_of_the_others():
    assert blocking.__all__ == [
        "Batch", "Producer", "PullConsumer", "PushConsumer", "SimpleConsumer", "TransactionProducer",
    ]  # fmt: skip
    for name in blocking.__all__:
        assert getattr(blocking, name).__name__ == f"Blocking{name}"
        assert name in orbitmq.__all__


def test_importing_the_package_loads_no_client():
    script = "import sys, orbitmq; print([name for name in sys.modules if name.startswith('orbitmq.')])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"


def test_every_public_name_is_there():
    assert {getattr(orbitmq, name).__name__ for name in orbitmq.__all__} == set(orbitmq.__all__)
    assert set(orbitmq.__all__) <= set(dir(orbitmq))
    with pytest.raises(AttributeError, match="Consumer"):
        orbitmq.Consumer  # noqa: B018
