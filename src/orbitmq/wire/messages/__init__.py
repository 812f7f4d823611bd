"""Bytes of messages: the record, its properties and compressed body, batches, tag codes and message ids. Pure."""
