"""Directories of archives: local ones as paths, those of any other file system that Spark writes to by their URIs.

Nothing is renamed in the latter, and no file is locked: an object store does neither as a disk does. Runs of one machine exclude each
other by a file of that machine; those of two machines do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from orbitmq.errors import ConfigError
from orbitmq.job_directory import CONTENT_SIZE_MAX, NAME, check_subject, claimed, lock_of, locked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopDirectory:
    """A directory of a file system that Hadoop, and so Spark, knows.

    Raises:
        ConfigError: Spark knows no such file system, or it cannot be reached.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._uri = uri
        self._jvm: Any = spark._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path
        with self._explained():
            self._uri = str(self._path(uri))  # the same for a/../b, a//b
            self._files = self._path(uri).getFileSystem(spark._jsc.hadoopConfiguration())
            self._files.exists(self._path(uri))

    def __str__(self) -> str:
        return self._uri

    def __truediv__(self, name: str) -> str:
        return f"{self._uri}/{name}"

    def glob(self, pattern: str) -> list[str]:
        """Return the URIs of what is there, `*` within a name."""
        with self._explained():
            return [str(found.getPath()) for found in self._files.globStatus(self._path(self / pattern)) or ()]

    def remove(self, pattern: str) -> None:
        """Delete what is there, with all below it."""
        for uri in self.glob(pattern):
            with self._explained():
                self._files.delete(self._path(uri), True)

    @contextmanager
    def claimed(self, subject: Mapping[str, str]) -> Iterator[None]:
        """Keep the directory for this run as `job_directory.claimed` does, among the runs of this machine.

        Raises:
            ConfigError: it is for something else, or holds files of others.
            JobFailed: another run is under way on this machine.
        """
        with locked(lock_of(self._uri), self._uri):
            if found := self._read(NAME):
                check_subject(self._uri, found, subject)
            elif any(not uri.endswith(f"/{NAME}") for uri in self.glob("*")):  # it is empty if its run was killed
                raise ConfigError("directory", f"{self}, which holds other files", "an empty one, or a new one")
            else:
                self._write(NAME, orjson.dumps(dict(subject)))
            yield

    def held(self) -> AbstractContextManager[None]:
        """Keep the directory as it is while it is read; raises JobFailed where a run of this machine writes there."""
        return locked(lock_of(self._uri), self._uri, is_shared=True)

    def _read(self, name: str) -> bytes:
        path = self._path(self / name)
        with self._explained():
            if not self._files.exists(path):
                return b""
            with closing(self._files.open(path)) as file:
                return bytes(file.readNBytes(CONTENT_SIZE_MAX))

    def _write(self, name: str, content: bytes) -> None:
        with self._explained(), closing(self._files.create(self._path(self / name), True)) as file:
            file.write(bytearray(content))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except (Py4JJavaError, PySparkException) as error:  # some of Java's are translated by pyspark
            told = str(getattr(error, "java_exception", error)).partition("\n")[0]
            wanted = f"one that Spark can use: --conf gives it packages and settings ({told:.300})"
            raise ConfigError("directory", self._uri, wanted) from None


@contextmanager
def opened(spark: SparkSession, place: Path | str, subject: Mapping[str, str]) -> Iterator[Path | HadoopDirectory]:
    """Keep an archive's directory for this run, and give it.

    Raises:
        ConfigError: it is for something else, holds files of others, or Spark cannot use it.
        JobFailed: another run is under way.
    """
    if isinstance(place, Path):
        with claimed(place, subject):
            yield place
    else:
        directory = HadoopDirectory(spark, place)
        with directory.claimed(subject):
            yield directory
