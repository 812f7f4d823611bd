"""The way from a DataFrame's rows to acknowledged messages."""
