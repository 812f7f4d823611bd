"""The first page: all brokers with their roles, rates and disks."""

from __future__ import annotations

from starlette.requests import Request

from orbitmq.admin.brokers import find_brokers
from orbitmq.dashboard.answers import Page
from orbitmq.dashboard.clients import ClusterClients


async def overview(_request: Request, clients: ClusterClients) -> Page:
    """Show every broker of every cluster."""
    found = await find_brokers(clients.admin)
    return Page("overview.html", "Overview", {"brokers": found.rows, "without_master": found.without_master})
