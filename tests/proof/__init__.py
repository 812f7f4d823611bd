"""The longest tier of tests: everything that takes minutes or hours. `make proof` runs it, one row after another.

`make check` takes a minute, `make test` and `make interop` some minutes. What is longer is a row of the registry: a command,
the question that it answers, the source paths that it is about, and what it needs of the machine.
"""
