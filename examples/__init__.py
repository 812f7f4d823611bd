"""Programs that show orbitmq at work. The tests run them, so what they show is true."""
