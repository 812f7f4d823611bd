"""The check of the files of messages that wait for a time of their own."""
