"""`orbitmq alerts`: incidents of a cluster, each sent once to a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.confirm import counted
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import TopicArgument, check_number
from orbitmq.cli.terminal.output import format_time, say
from orbitmq.cli.terminal.printable import printable


def alerts(
    access: Access,
    topic: TopicArgument,
    every_s: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Between two looks.", callback=check_number)
    ] = 10.0,
    looks: Annotated[int, typer.Option("--looks", min=0, help="End after so many; 0: Ctrl-C ends it.")] = 0,
) -> None:
    """Watch NameServers and brokers, and tell each incident once to a topic: when it begins, and when it is over.

    Killed and started again it tells nothing a second time. Exit code 1 when the topic did not take the last notices.
    """
    from orbitmq.clock import now_ms
    from orbitmq.monitoring.incident_watch import IncidentWatch
    from orbitmq.net.loop import run

    def tell(text: str) -> None:
        say(f"{format_time(now_ms())}  {printable(text)}")

    watch = IncidentWatch(access.name_servers, access.load_security(), access.timeout_ms, topic, tell)
    try:
        run(watch.run(every_s, looks))
    except KeyboardInterrupt:
        if not watch.looks:
            raise
    if watch.opened is None:
        raise typer.Exit(ExitCode.NO)
    say(counted(len(watch.opened), "incident is open", "incidents are open"))
