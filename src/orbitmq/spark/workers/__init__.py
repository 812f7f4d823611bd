"""A Python worker of Spark as one process: Spark keeps it, and runs one task after the other in it."""
