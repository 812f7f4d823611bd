"""The check of index files: looked at without opening the store."""
