"""Plain sends, stored and answered without building a command."""
