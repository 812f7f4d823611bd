"""A stream that is going to be killed: topic to topic, exactly once; it ends when it has caught up.

python exactly_once_job.py NAME_SERVERS FROM TO MARKERS CHECKPOINT ROWS_PER_BATCH
"""

from __future__ import annotations

import sys

from orbitmq.spark.driver.session import local_session
from orbitmq.spark.versions import LIMITS_STREAMS

name_servers, source, target, markers, checkpoint, per_batch = sys.argv[1:]

spark = local_session("killed", master="local[2,4]")
print("up", flush=True)
reading = {
    "nameServer": name_servers,
    "topic": source,
    "startingOffsets": "earliest",
}
if LIMITS_STREAMS:
    reading["maxOffsetsPerTrigger"] = per_batch
writing = {"nameServer": name_servers, "topic": target, "delivery": "exactly-once", "markerTopic": markers}
frame = spark.readStream.format("rocketmq").options(**reading).load().select("body")
writer = frame.writeStream.format("rocketmq").options(**writing).option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
print("done", flush=True)
