"""A stream that is going to be killed: topic to Parquet, fifty messages at a time; prints a line per micro-batch.

python stream_job.py NAME_SERVERS TOPIC DIR
"""

from __future__ import annotations

import sys

from pyspark.sql.streaming import StreamingQueryListener

from orbitmq.spark.driver.session import local_session

name_servers, topic, directory = sys.argv[1:]


class Teller(StreamingQueryListener):
    def onQueryStarted(self, event):  # noqa: N802
        pass

    def onQueryProgress(self, event):  # noqa: N802
        print("batch", event.progress.batchId, flush=True)

    def onQueryTerminated(self, event):  # noqa: N802
        pass


spark = local_session("killed")
spark.streams.addListener(Teller())
options = {"nameServer": name_servers, "topic": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"}
frame = spark.readStream.format("rocketmq").options(**options).load()
writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
writer.option("path", f"{directory}/out").start().awaitTermination()
