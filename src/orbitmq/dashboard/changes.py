"""Changes: from a form to a question, from its confirmation to the change, the audit log, and the page that shows it.

Changes are asked before they are made, but for those that the table of `orbitmq.admin.actions` names: the first answer says what a
change would do, and its form holds the same fields with a confirmation. A change needs a role, and the secret of its session.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from orbitmq.admin.actions import ACTIONS, Action
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.audit import AuditRecord, write_or_log
from orbitmq.dashboard.answers import HEADERS, Page, answer, error_page, is_json_wanted, quoted_path
from orbitmq.dashboard.forms import Form
from orbitmq.dashboard.requests import FORM_SIZE_MAX, read_form
from orbitmq.dashboard.sessions import Session
from orbitmq.dashboard.users import session_of
from orbitmq.errors import OrbitError, PartlyDone

CONFIRMED = "confirmed"
CSRF = "csrf"
ONCE = "once"
"""A field of each form on a page: its change is made once, however often it is sent, as by a double click."""
_NOT_OF_CHANGES = (CSRF, CONFIRMED, ONCE)
_KEPT_MAX = 100
"""Changes of a session that are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a change would do.

    Args:
        text: the question.
        button: what its button says.
        columns: of the rows.
        rows: what would change, one thing a row.
        is_dangerous: something is lost by it.
    """

    text: str
    button: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    is_dangerous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a change has done.

    Args:
        text: said on the page that comes next.
        location: of that page.
        before: what was there, for the audit log.
        after: what is there now.
    """

    text: str
    location: str
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One kind of change.

    Args:
        path: where its form is sent to; its parts in braces are fields, too.
        action: its name in the audit log, and in the table of `orbitmq.admin.actions`, which says who may make it.
        ask: says what it would do, and changes nothing; None: it is made without a question.
        make: makes it.
        back: the page that a question's Cancel leads to; None: the path without its last part.
        size_max: bytes of its form.
    """

    path: str
    action: str
    make: Callable[[Form, ClusterClients], Awaitable[Done]]
    ask: Callable[[Form, ClusterClients], Awaitable[Question]] | None = None
    back: str | None = None
    size_max: int = FORM_SIZE_MAX

    @property
    def rules(self) -> Action:
        """Who may make it, and what is checked before."""
        return ACTIONS[self.action]


async def answer_change(request: Request, change: Change, session: Session[ClusterClients]) -> Response:
    """Answer the form of a change; it is read once the session may make the change."""
    try:
        if await session_of(request, before_change=True) is None:
            return answer(request, Page("error.html", "Error", {"error": "the session has ended: log in again"}, 401))
        if (problem := role_problem(change, session)) is not None:
            return refusal_page(request, problem)
        sent = await read_form(request, change.size_max)
        form = Form({**sent.fields, **request.path_params})
        if (problem := csrf_problem(request, session, form)) is not None:
            return refusal_page(request, problem)
        await change.rules.check(session.clients.admin, form.fields)
        if change.ask is not None and form.raw(CONFIRMED) != "yes":
            question = await change.ask(form, session.clients)
            return answer(request, _question_page(request, change, question, form))
        done = await _make_once(request, change, session, form)
    except OrbitError as error:
        return answer(request, error_page(error))
    if is_json_wanted(request):
        return answer(
            request, Page("error.html", "Done", {"done": done.text, "before": done.before, "after": done.after})
        )
    session.notices.append(done.text)
    return RedirectResponse(done.location, 303, HEADERS)


def refusal_page(request: Request, problem: str) -> Response:
    """Return the answer to what is not allowed."""
    return answer(request, Page("error.html", "Error", {"error": problem}, 403))


def role_problem(change: Change, session: Session[ClusterClients]) -> str | None:
    """Return why a user may not make a change, as far as the dashboard decides it; None: it may."""
    if not session.may(change.rules.role):
        return f"{session.user} is {session.role}: this needs the role {change.rules.role}"
    if change.rules.rule is None and not session.is_super:
        return (
            f"{session.user} is not a super user of the brokers: no broker judges this, so that it is for super users"
        )
    return None


def csrf_problem(request: Request, session: Session[ClusterClients], form: Form) -> str | None:
    """Return why a form did not come from a page of this session; None: it did."""
    given = form.raw(CSRF) or request.headers.get("x-csrf-token", "")
    if not hmac.compare_digest(given.encode(), session.csrf.encode()):
        return "the page that sent this is of another session: load it again"
    return None


async def _make_once(request: Request, change: Change, session: Session[ClusterClients], form: Form) -> Done:
    """Make a change; the same form of the same page, sent again, gets the outcome of before: it was a double click."""
    if not form.raw(ONCE):  # a program
        return await _make(request, change, session, form)
    once = sha256(repr((request.url.path, sorted(form.fields.items()))).encode()).hexdigest()
    making: asyncio.Future[Done] | None = session.made.get(once)
    if making is not None:
        done = await asyncio.shield(making)
        return replace(done, text=f"{done.text} (sent twice, made once)")
    making = session.made[once] = asyncio.ensure_future(_make(request, change, session, form))
    while len(session.made) > _KEPT_MAX:
        del session.made[next(iter(session.made))]
    try:
        return await asyncio.shield(making)
    except Exception:  # what failed may be tried again
        session.made.pop(once, None)
        raise


async def _make(request: Request, change: Change, session: Session[ClusterClients], form: Form) -> Done:
    audit = request.app.state.audit
    target = {
        name: value
        for name, value in form.fields.items()
        if name not in _NOT_OF_CHANGES and name not in change.rules.hidden
    }

    def record(**outcome: Any) -> AuditRecord:
        now_ms = time.time_ns() // 1_000_000
        return AuditRecord(at_ms=now_ms, who=session.user, action=change.action, target=target, **outcome)

    try:
        done = await change.make(form, session.clients)
    except BaseException as error:  # also what no change should raise, and the end of this process
        partly = list(error.done) if isinstance(error, PartlyDone) else None
        write_or_log(audit, record(after=partly, error=str(error) or type(error).__name__))
        raise
    problem = write_or_log(audit, record(before=done.before, after=done.after))
    return done if problem is None else replace(done, text=f"{done.text}; {problem}")


def _question_page(request: Request, change: Change, question: Question, form: Form) -> Page:
    fields = {
        name: value for name, value in form.fields.items() if name not in (*_NOT_OF_CHANGES, *request.path_params)
    }
    values: Mapping[str, Any] = {
        "question": question.text,
        "button": question.button,
        "columns": question.columns,
        "rows": question.rows,
        "is_dangerous": question.is_dangerous,
        "fields": fields,
        "action": quoted_path(request),
        "back": change.back or quoted_path(request).rpartition("/")[0],
    }
    return Page("question.html", "Confirm", values)
