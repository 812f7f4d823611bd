"""Exactly once into RocketMQ: half messages of tasks, and a marker that says which of them count."""
