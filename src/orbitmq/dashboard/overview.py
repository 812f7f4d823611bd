"""The first page: what the doctor has found, and all brokers with their roles, rates and disks."""

from __future__ import annotations

from starlette.requests import Request

from orbitmq.admin.brokers import find_brokers
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.dashboard.answers import Page
from orbitmq.dashboard.doctor import rows_of, section
from orbitmq.dashboard.watching import watch_of

ISSUES_MAX = 10


async def overview(request: Request, clients: ClusterClients) -> Page:
    """Show what is wrong, and every broker of every cluster."""
    found = await find_brokers(clients.admin)
    watch = watch_of(request)
    issues = rows_of(watch.issues)
    values = {
        "brokers": found.rows,
        "without_master": found.without_master,
        "issue_count": len(issues),
        "look_problem": watch.problem,
        "looked_at_ms": None if watch.snapshot is None else watch.snapshot.taken_at_ms,
    }
    return Page("overview.html", "Overview", values, sections=[section(issues[:ISSUES_MAX])])
