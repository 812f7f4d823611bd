"""Errors as the user of a query reads them: one line each, without the trace of calls inside the connector.

Spark sends the text of a Python error to the user with the trace of every call outside pyspark. Each process that does so
ends with it, so the setting for it can be made there in the moment of the error, and touches no other query's.
`spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled=false` brings the traces back, but for the process that plans
streams: Spark does not tell it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

from orbitmq.errors import OrbitError

_Class = TypeVar("_Class", bound=type)
_SIMPLIFIED, _HIDDEN = "SPARK_SIMPLIFIED_TRACEBACK", "SPARK_HIDE_TRACEBACK"
"""What Spark sets for its Python processes from the session's settings, and reads when an error ends one of them."""
_STREAM_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"


def in_sentences(told: _Class) -> _Class:
    """Let Spark tell errors of ours out of the class' public methods, and of what they yield, without their traces."""
    for name, method in list(vars(told).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(told, name, _in_sentences(method))
    return told


def _in_sentences(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with without_trace():
            result = method(*args, **kwargs)
        return _each(result) if isinstance(result, Iterator) else result

    return call


def _each(result: Iterator[Any]) -> Iterator[Any]:
    with without_trace():
        yield from result


@contextmanager
def without_trace() -> Iterator[None]:
    """Let Spark tell an error of ours that leaves the block without its trace."""
    try:
        yield
    except OrbitError:
        if os.environ.get(_SIMPLIFIED) or _plans_streams():
            os.environ[_HIDDEN] = "1"
        raise


def _plans_streams() -> bool:
    started = getattr(sys.modules["__main__"], "__spec__", None)
    return _STREAM_PLANNER in sys.modules or (started is not None and started.name == _STREAM_PLANNER)
