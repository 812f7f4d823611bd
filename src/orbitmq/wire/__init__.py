"""Bytes to values and back, sans-I/O. Nothing here knows sockets, files, clocks or chance."""
