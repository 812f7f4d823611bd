"""The local read path: a task on a broker's own machine maps the broker's files instead of pulling from it."""
