"""Whole jobs, from a topic to a result, that check themselves: `python -m orbitmq.spark.jobs.quickstart`."""
