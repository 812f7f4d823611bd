"""The process as its system sees it: what it uses, and how it is told to end."""
