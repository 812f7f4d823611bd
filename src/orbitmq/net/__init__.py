"""Connections: one session state machine, driven by asyncio or by a blocking socket."""
