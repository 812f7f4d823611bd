"""The blocking clients: each asyncio class on an event loop in a thread of its own."""
