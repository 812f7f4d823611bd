"""The two things by which Spark finds `format("rocketmq")`: the Python that it starts, and a session that knows the format.

Spark looks for data sources in a Python of its own, called `python3` unless PYSPARK_PYTHON names another. Where the
environment of the program is not activated that is the system's, which has no orbitmq: all that Spark says of it is
DATA_SOURCE_NOT_FOUND. `import orbitmq.spark` does what is here.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARKS_OWN = "python3"


def prepare() -> None:
    """Name this program's Python to Spark, and register the format where a session runs already."""
    choose_python(os.environ, sys.executable)
    session = running_session()
    if session is not None:
        register(session)


def register(session: SparkSession) -> None:
    """Make `format("rocketmq")` known to one session, and to this thread: a write finds it in the thread's active session alone.

    A local session that would start another Python starts this program's from now on.
    """
    from pyspark_rocketmq import DefaultSource

    # A session of Spark Connect has no such attribute: its server starts the Pythons, and knows the session of each call.
    context = getattr(session, "_sc", None)
    if context is not None:
        if context.master.startswith("local") and _is_another(context.pythonExec, sys.executable):
            context.pythonExec = sys.executable
        session.createDataFrame(
            [], "body binary"
        )  # makes the session active in this thread: neither builder nor threads do
    session.dataSource.register(DefaultSource)


def choose_python(environment: MutableMapping[str, str], executable: str) -> None:
    """Name `executable` to Spark, unless the user has chosen or Spark would start the same.

    PYSPARK_DRIVER_PYTHON is often `jupyter`: that starts notebooks, but Spark takes it for a Python.
    """
    if not environment.get("PYSPARK_PYTHON") and _is_another(_SPARKS_OWN, executable, environment.get("PATH")):
        environment["PYSPARK_PYTHON"] = executable
    driver = environment.get("PYSPARK_DRIVER_PYTHON")
    if driver and not Path(driver).name.startswith("python"):
        environment["PYSPARK_DRIVER_PYTHON"] = executable


def running_session() -> SparkSession | None:
    """Return the session that is active in this thread; None, without an import of pyspark, where there is none."""
    remote = sys.modules.get("pyspark.sql.connect.session")
    session = remote.SparkSession.getActiveSession() if remote is not None else None
    local = sys.modules.get("pyspark.core.context")
    # In the processes that Spark starts there is no context, and a question for the session might look for a server.
    if session is None and local is not None and local.SparkContext._active_spark_context is not None:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
    return session


def _is_another(python: str, executable: str, path: str | None = None) -> bool:
    """Return True if a command starts another environment's Python: environments share the file, never the folder."""
    found = shutil.which(python, path=path)
    return found is None or Path(found).parent != Path(executable).parent
