"""Jobs on topics, run with Spark: each is a module with one function, and a command `orbitmq job NAME`."""
