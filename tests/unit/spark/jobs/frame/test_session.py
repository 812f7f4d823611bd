from __future__ import annotations

import pytest

from orbitmq.errors import ConfigError
from orbitmq.spark.jobs.frame import session as module
from orbitmq.spark.jobs.frame.session import job_session


class Spark:
    stopped = False

    def stop(self):
        self.stopped = True


def test_a_missing_package_is_told_with_what_to_type(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'orbitmq\[spark\]'"), job_session("archive", "local"):
        pass


def test_spark_is_stopped_however_the_job_ends(monkeypatch):
    spark, asked = Spark(), []
    monkeypatch.setattr(module, "local_session", lambda name, **options: asked.append((name, options)) or spark)
    session = job_session("archive", "local[3]", {"spark.jars": "a.jar"})
    assert session.__enter__() is spark
    assert not spark.stopped
    interrupt = KeyboardInterrupt()
    assert not session.__exit__(type(interrupt), interrupt, None)
    assert spark.stopped
    assert asked[0][0] == "orbitmq job archive"
    assert asked[0][1]["master"] == "local[3]"
    assert asked[0][1]["settings"]["spark.jars"] == "a.jar"
