"""Many more queues than descriptors; the long form is `crash.cold`."""

import asyncio
from pathlib import Path

import pytest

from crash.cold import Shape, prove


@pytest.mark.parametrize("flush", [pytest.param("ASYNC_FLUSH", marks=pytest.mark.proof), "SYNC_FLUSH"])
def test_a_broker_has_more_queues_than_descriptors_and_loses_nothing(tmp_path: Path, flush: str) -> None:
    shape = Shape(topics=150, queues=4, descriptors=128, flush=flush)
    figures = asyncio.run(prove(tmp_path, shape))
    assert figures.descriptors_max < shape.descriptors
    assert figures.maps_max < 400, "no queue has a map"
