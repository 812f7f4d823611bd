"""Marks and options for tests that run on older versions of Spark, too."""

from __future__ import annotations

import pytest

from orbitmq.spark.versions import LIMITS_STREAMS, SPARK_VERSION


def since(version: str, what: str) -> pytest.MarkDecorator:
    """Return the mark of a test that an older Spark skips: it does not do `what`."""
    is_older = [int(part) for part in SPARK_VERSION.split(".")[:2]] < [int(part) for part in version.split(".")]
    return pytest.mark.skipif(is_older, reason=f"Spark {what} since {version}")


def limited_to(count: int) -> dict[str, str]:
    """Return the option for micro-batches of so many messages; none where Spark limits none, and a run is one micro-batch."""
    return {"maxOffsetsPerTrigger": str(count)} if LIMITS_STREAMS else {}
