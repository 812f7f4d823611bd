"""Message traces of clients: as rows, as latencies, and as a picture."""
