"""Dead letters: the messages that a group could not process, looked at and sent to their topics again."""
