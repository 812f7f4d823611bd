"""Files that a NameServer keeps: the key-value store, and the settings that were changed from afar."""
