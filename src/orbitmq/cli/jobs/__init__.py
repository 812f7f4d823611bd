"""The commands of `orbitmq job`: jobs on topics that Spark runs. They import pyspark only when they run."""
