"""A notebook that imports the connector late, in a session that runs already, next to a running event loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark.standalone import make_python, run_job

pytestmark = [pytest.mark.spark, pytest.mark.proof]

CELLS = [
    """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
spark = spark.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC").getOrCreate()
""",
    """
import orbitmq.spark
options = {"nameServer": NAME_SERVERS, "topic": TOPIC}
""",
    """
from orbitmq import Message, Producer
async with Producer("notebook", name_servers=NAME_SERVERS) as producer:
    for number in range(20):
        await producer.send(Message(TOPIC, b"%d" % number, keys=["key"]))
""",
    """
orders = spark.read.format("rocketmq").options(**options).load()
print("read", orders.count())
""",
    """
spark.conf.set("spark.sql.repl.eagerEval.enabled", True)
print("shown", orders.select("keys")._repr_html_().count("<td>key</td>"))
""",
    """
import asyncio
stream = spark.readStream.format("rocketmq").options(**options).option("startingOffsets", "earliest").load()
query = stream.writeStream.format("memory").queryName("seen").start()
while spark.table("seen").count() < 20:
    await asyncio.sleep(0.1)
query.stop()
print("streamed", spark.table("seen").count())
""",
    """
from orbitmq import blocking
with blocking.Producer("notebook", NAME_SERVERS) as producer:
    print("sent", producer.send(Message(TOPIC, b"from the loop's own thread")).status.name)
""",
    """
try:
    spark.read.format("rocketmq").option("nameServr", NAME_SERVERS).load()
except Exception as error:
    print("error", "expected nameServer (did you mean that?)" in str(error), "Traceback" in str(error))
spark.stop()
""",
]


def test_a_notebooks_cells_run_in_a_running_loop(rocketmq_session, topic, tmp_path):
    given = f"NAME_SERVERS, TOPIC = {rocketmq_session.name_servers!r}, {topic!r}"
    cells = tmp_path / "cells.json"
    cells.write_text(json.dumps([given, *CELLS]))
    python = make_python(tmp_path / "python", with_orbitmq=True)

    told = run_job(python, Path(__file__).with_name("notebook.py"), tmp_path, str(cells))

    assert told == ["read 20", "shown 20", "streamed 20", "sent SEND_OK", "error True False"]
