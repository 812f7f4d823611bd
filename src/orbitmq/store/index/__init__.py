"""The index of messages by key: files, their building behind the log, and queries."""
