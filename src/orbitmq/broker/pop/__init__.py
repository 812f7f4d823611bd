"""POP: messages that are a consumer's for a time, acknowledged one by one, and given to another when that time is over."""
