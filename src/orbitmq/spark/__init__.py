"""The PySpark connector: `spark.read.format("rocketmq")`, `readStream`, `write` and `writeStream`.

Import it before the session is made, or after: Spark then finds the format whatever Python it would have started.
Importing this package imports neither pyspark nor pyarrow: Spark looks it up in every session.
"""

from orbitmq.spark.registration import prepare, register

__all__ = ["register"]

prepare()
