"""What users need to test code that speaks RocketMQ: public API."""
