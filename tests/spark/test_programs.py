"""A program of its own, started as a new user starts it: by the environment's Python, without activating anything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from orbitmq import Message

pytestmark = [pytest.mark.spark, pytest.mark.interop]  # Spark sessions of their own

SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
spark = spark.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC").getOrCreate()
"""
READ = """
import sys
orders = spark.read.format("rocketmq").option("nameServer", sys.argv[1]).option("topic", sys.argv[2]).load()
print("read", sorted(bytes(row.body).decode() for row in orders.select("body").collect()))
"""


def run_program(tmp_path, text: str, *arguments: str) -> str:
    """Run a program in an environment that has no Python of ours on its PATH; return what it prints."""
    (tmp_path / "job.py").write_text(text)
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "PYTHONPATH", "HOME") if name in os.environ}
    environment = {**kept, "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYSPARK_DRIVER_PYTHON"] = "jupyter"  # as people leave it in their profiles
    command = [sys.executable, "job.py", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_import_makes_a_program_find_the_format(rocketmq_session, send, topic, tmp_path):
    send(Message(topic, body) for body in (b"one", b"two"))
    text = f"import orbitmq.spark\n{SESSION}{READ}"

    assert "read ['one', 'two']" in run_program(tmp_path, text, rocketmq_session.name_servers, topic)
