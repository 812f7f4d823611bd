"""A small HTTP server for machines: metrics, health, state. People's pages are not its business."""
