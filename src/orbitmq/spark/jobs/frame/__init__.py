"""Parts that all jobs share: the cluster they work on, their Spark, their directory, their screen, their streams."""
