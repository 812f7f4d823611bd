"""A client of Spark Connect that has no orbitmq: a batch and a stream from topic to topic, SQL, and an error.

python connect_job.py URL NAME_SERVERS TOPIC CHECKPOINT
"""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

url, name_servers, topic, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()


def read(name: str):
    """Return a topic as a DataFrame."""
    return spark.read.format("rocketmq").option("nameServer", name_servers).option("topic", name).load()


print("client", type(spark).__module__)
print("read", read(topic).count())
target = {"nameServer": name_servers, "topic": f"{topic}-copy"}
read(topic).select("body", "keys").write.format("rocketmq").options(**target).mode("append").save()
print("written", read(f"{topic}-copy").count())

source = {"nameServer": name_servers, "topic": topic, "startingOffsets": "earliest"}
stream = spark.readStream.format("rocketmq").options(**source).load().select("body")
writer = stream.writeStream.format("rocketmq").options(**target).option("checkpointLocation", checkpoint)
query = writer.trigger(availableNow=True).start()
query.awaitTermination()
print("streamed", read(f"{topic}-copy").count(), "lag", query.lastProgress["sources"][0]["latestOffset"] is not None)

spark.sql(f"CREATE TABLE orders USING rocketmq OPTIONS (nameServer '{name_servers}', topic '{topic}')").collect()
to = f"WITH (nameServer = '{name_servers}', topic = '{topic}')"
spark.sql(f"INSERT INTO orders {to} (body) VALUES (binary('one more'))").collect()
print("sql", spark.sql("SELECT count(*) AS n FROM orders").first().n)
try:
    spark.read.format("rocketmq").option("nameServr", name_servers).load().collect()
except PySparkException as error:
    print("error", str(error).splitlines()[0])
spark.stop()
