"""Issues that the doctor has found in the last look at the cluster, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.dashboard.answers import Column, Page, Section, paged
from orbitmq.dashboard.watching import FOR_SUPER_USERS, Watch
from orbitmq.doctor import Issue

COLUMNS = (
    Column("severity", "Severity", "severity"),
    Column("subject", "Subject"),
    Column("text", "Issue", "long"),
    Column("to_type", "To type", "code"),
    Column("check", "Check"),
)


async def doctor(request: Request, _clients: ClusterClients) -> Page:
    """List all issues; `?now=1` takes a look first."""
    if not request.state.session.is_super:
        return Page("error.html", "Error", {"error": FOR_SUPER_USERS}, 403)
    watch: Watch = request.app.state.watch
    if watch.snapshot is None or request.query_params.get("now"):
        await watch.look()
    rows, page = paged(request, rows_of(watch.issues))
    note = f"The last look failed: {watch.problem}" if watch.problem else None
    values = {"page": page, "looked_at_ms": watch.snapshot.taken_at_ms if watch.snapshot else None, "problem": note}
    return Page("doctor.html", "Doctor", values, sections=[section(rows)])


def section(rows: Sequence[dict[str, Any]]) -> Section:
    """Return issues as a table."""
    return Section(name="issues", title="Issues", columns=COLUMNS, rows=rows, empty="Nothing is wrong.")


def rows_of(issues: Sequence[Issue]) -> list[dict[str, Any]]:
    """Return issues as rows."""
    return [{**issue._asdict(), "severity": issue.severity.value} for issue in issues]
