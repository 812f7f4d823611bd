"""The evidence for `orbitmq.raft` beyond its unit tests: scenario scripts, a simulator, and mutants that it has to find."""
