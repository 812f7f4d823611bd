"""What every client has: an id, connections, routes, heartbeats and background tasks."""
