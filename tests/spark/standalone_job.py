"""A program on a standalone Spark cluster: topic to DataFrame, DataFrame to topic, a stream exactly once into another.

python standalone_job.py MASTER NAME_SERVERS TOPIC CHECKPOINT [ZIP]; with a zip of the connector the stream is left out.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import orbitmq.spark
from orbitmq.spark.versions import LIMITS_STREAMS

master, name_servers, topic, checkpoint, *zips = sys.argv[1:]

settings = {
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # The job waits for both executors.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s",
    "spark.cores.max": "2",
}
spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
for name in zips:
    spark.sparkContext.addPyFile(name)
    orbitmq.spark.register(spark)


def read(name: str):
    """Return a topic as a DataFrame."""
    return spark.read.format("rocketmq").option("nameServer", name_servers).option("topic", name).load()


executors = spark.range(8, numPartitions=4).rdd.map(lambda _: os.environ.get("SPARK_EXECUTOR_DIRS")).distinct().count()
print("executors", executors)
print("read", read(topic).count())

target = {"nameServer": name_servers, "topic": f"{topic}-copy"}
read(topic).select("body", "keys").write.format("rocketmq").options(**target).mode("append").save()
print("written", read(f"{topic}-copy").count())

if not zips:
    source = {"nameServer": name_servers, "topic": topic, "startingOffsets": "earliest"}
    if LIMITS_STREAMS:
        source["maxOffsetsPerTrigger"] = "150"
    once = {
        "nameServer": name_servers,
        "topic": f"{topic}-once",
        "delivery": "exactly-once",
        "markerTopic": f"{topic}-markers",
    }
    stream = spark.readStream.format("rocketmq").options(**source).load().select("body")
    writer = stream.writeStream.format("rocketmq").options(**once).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    found = read(f"{topic}-once")
    print("once", found.count(), found.select("body").distinct().count())
spark.stop()
