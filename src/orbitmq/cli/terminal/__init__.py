"""The way in which all commands speak with people and programs: options, output, times, exit codes."""
