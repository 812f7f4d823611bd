"""The PySpark connector: `spark.read.format("rocketmq")`, `readStream`, `write` and `writeStream`.

Importing this package imports neither pyspark nor pyarrow: Spark looks it up in every session.
"""
