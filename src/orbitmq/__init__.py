"""RocketMQ for Python people."""
