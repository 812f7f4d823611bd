"""`orbitmq alerts`: incidents of a cluster, each sent once to a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.checks import show_checks
from orbitmq.cli.terminal.options import FormatOption, TopicArgument, check_number
from orbitmq.cli.terminal.output import Format, format_time, say
from orbitmq.cli.terminal.printable import printable


def alerts(
    access: Access,
    topic: TopicArgument,
    every_s: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Between two looks.", callback=check_number)
    ] = 10.0,
    looks: Annotated[int, typer.Option("--looks", min=0, help="End after so many; 0: Ctrl-C ends it.")] = 0,
    output: FormatOption = Format.TABLE,
) -> None:
    """Watch NameServers and brokers, and tell each incident once to a topic: when it begins, and when it is over.

    Killed and started again it tells nothing a second time. Exit code 1 when a check of the topic fails.
    """
    from orbitmq.clock import now_ms
    from orbitmq.monitoring.incident_watch import IncidentWatch
    from orbitmq.monitoring.incidents import check_notices
    from orbitmq.net.loop import run

    def tell(text: str) -> None:
        say(f"{format_time(now_ms())}  {printable(text)}")

    watch = IncidentWatch(access.name_servers, access.load_security(), access.timeout_ms, topic, tell)
    try:
        run(watch.run(every_s, looks))
    except KeyboardInterrupt:
        if not watch.looks:
            raise
    show_checks("alerts", check_notices(run(watch.read_notices()), watch.opened), output)
