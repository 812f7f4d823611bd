"""The terminal side of all commands: options, output, times, exit codes."""
