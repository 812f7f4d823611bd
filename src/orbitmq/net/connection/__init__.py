"""One connection on the event loop: what is read, written, awaited and limited."""
