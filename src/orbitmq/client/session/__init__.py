"""The part that all clients have: an id, connections, routes, heartbeats and background tasks."""
