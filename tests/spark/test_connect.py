"""Spark Connect: a server that has the connector, and a client that has only Spark's own packages."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from orbitmq import Message
from orbitmq.blocking import Producer
from spark.standalone import connect_server, make_python, run_job

pytestmark = [pytest.mark.spark, pytest.mark.proof]


def test_a_client_without_the_connector_reads_writes_and_streams(rocketmq_session, topic, tmp_path):
    if find_spec("grpc") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no grpcio: run `make install`")
    with Producer("spark-tests", rocketmq_session.name_servers) as producer:
        producer.send_all(Message(topic, b"%d" % n) for n in range(40))
    client = make_python(tmp_path / "client", with_orbitmq=False)
    arguments = [rocketmq_session.name_servers, topic, str(tmp_path / "checkpoint")]

    with connect_server(tmp_path / "server", make_python(tmp_path / "python", with_orbitmq=True)) as url:
        told = run_job(client, Path(__file__).with_name("connect_job.py"), tmp_path, url, *arguments)

    assert told[:5] == ["client pyspark.sql.connect.session", "read 40", "written 40", "streamed 80 lag True", "sql 41"]
    assert "option: 'nameservr' is not allowed, expected nameServer (did you mean that?)" in told[5]
