"""The failures of sends: brokers that a producer avoids after one, and whether and when it tries again."""
