"""The command line: one small module per family of commands, grouped by subject."""
