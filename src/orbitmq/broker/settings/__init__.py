"""The broker's settings while it runs: what is shown of them, what may be changed, and the file that keeps the changes."""
