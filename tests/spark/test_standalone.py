"""Spark as companies run it: a master, two workers, executors that know nothing of the driver's environment."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer
from spark.standalone import SOURCES, make_python, run_job, standalone_cluster
from unit.spark.exactly_once.topics import create

pytestmark = [pytest.mark.spark, pytest.mark.proof]

JOB = Path(__file__).with_name("standalone_job.py")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as url:
        yield url


@pytest.fixture
def filled(rocketmq_session, topic) -> str:
    """Fill the test's topic with 400 messages and make the topics that the job writes; return their prefix."""
    name_servers = rocketmq_session.name_servers
    for name, queues in ((topic, 4), (f"{topic}-copy", 4), (f"{topic}-once", 4), (f"{topic}-markers", 1)):
        create(name_servers, name, queues)
    with Producer("spark-tests", name_servers) as producer:
        producer.send_all(Message(topic, b"%d" % n) for n in range(400))
    return topic


def test_executors_that_have_the_connector_installed(cluster, rocketmq_session, filled, tmp_path):
    python = make_python(tmp_path / "installed", with_orbitmq=True)

    told = run_job(python, JOB, tmp_path, cluster, rocketmq_session.name_servers, filled, str(tmp_path / "checkpoint"))

    assert told == ["executors 2", "read 400", "written 400", "once 400 400"]


def test_executors_that_get_the_connector_as_a_zip(cluster, rocketmq_session, filled, tmp_path):
    driver = make_python(tmp_path / "driver", with_orbitmq=True)
    python = make_python(tmp_path / "lacking", with_orbitmq=False)
    with zipfile.ZipFile(tmp_path / "orbitmq.zip", "w") as archive:
        for package in ("orbitmq", "pyspark_rocketmq"):
            for path in (SOURCES / package).rglob("*.py"):
                archive.write(path, path.relative_to(SOURCES))
    arguments = [cluster, rocketmq_session.name_servers, filled, str(tmp_path / "checkpoint")]

    told = run_job(driver, JOB, tmp_path, *arguments, str(tmp_path / "orbitmq.zip"), PYSPARK_PYTHON=str(python))

    assert told == ["executors 2", "read 400", "written 400"]
