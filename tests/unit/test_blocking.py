import subprocess
import sys

import pytest

import orbitmq
from orbitmq import blocking

pytestmark = pytest.mark.real


def test_the_blocking_classes_have_the_names_of_the_others():
    assert blocking.__all__ == [
        "Batch", "Producer", "PullConsumer", "PushConsumer", "SimpleConsumer", "TransactionProducer",
    ]  # fmt: skip
    for name in blocking.__all__:
        assert getattr(blocking, name).__name__ == f"Blocking{name}"
        assert name in orbitmq.__all__


def loaded_by(script):
    """Return the modules that a process has loaded after a script."""
    command = [sys.executable, "-c", f"{script}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_no_client():
    assert {name for name in loaded_by("import orbitmq") if name.startswith("orbitmq.")} == set()
    blocking_too = loaded_by("import orbitmq.blocking")
    assert {name for name in blocking_too if name.startswith("orbitmq.")} == {"orbitmq.blocking"}
    assert not {"asyncio", "ssl", "orjson", "uvloop", "concurrent.futures"} & blocking_too


def test_a_producer_loads_nothing_of_consumers():
    # Making the headers of all requests took most of its time.
    loaded = loaded_by("from orbitmq.blocking import Producer")
    headers = {name for name in loaded if name.startswith("orbitmq.wire.headers.")}
    assert headers == {f"orbitmq.wire.headers.{family}" for family in ("groups", "nameserver", "send")}
    assert {name for name in loaded if "consume" in name or "lark" in name} == set()


def test_every_public_name_is_there():
    assert {getattr(orbitmq, name).__name__ for name in orbitmq.__all__} == set(orbitmq.__all__)
    assert set(orbitmq.__all__) <= set(dir(orbitmq))
    assert set(blocking.__all__) <= set(dir(blocking))
    with pytest.raises(AttributeError, match="Consumer"):
        orbitmq.Consumer  # noqa: B018
    with pytest.raises(AttributeError, match="Consumer"):
        blocking.Consumer  # noqa: B018
