"""Fixtures for pytest: a RocketMQ cluster inside your tests."""
