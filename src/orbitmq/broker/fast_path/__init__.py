"""The fast path of plain sends, which are stored and answered without building a command."""
