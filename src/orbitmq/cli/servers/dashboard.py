"""`orbitmq dashboard`: pages that show a cluster, ours or Java's, in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.servers.options import PORT_MAX
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, say

if TYPE_CHECKING:
    from orbitmq.dashboard.app import Dashboard


def load_dashboard() -> type[Dashboard]:
    """Return the dashboard's class; ends the command with a sentence where its packages are not installed."""
    try:
        from orbitmq.dashboard.app import Dashboard
    except ImportError as error:
        say(f"the dashboard needs {error.name}: pip install 'orbitmq[dashboard]'")
        raise typer.Exit(1) from None
    return Dashboard


def dashboard(
    access: Access,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on: this machine's own, for there is no login.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=PORT_MAX, help="0 chooses one and prints it.")] = 8080,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show brokers, topics, groups and messages in a browser, until Ctrl-C or SIGTERM. Nothing is changed."""
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.net.loop import run

    serve = load_dashboard()

    def make() -> Dashboard:
        return serve(
            access.name_servers, host=host, port=port, timeout_ms=access.timeout_ms, security=access.load_security()
        )

    run(serve_until_signal(make, lambda service: show_ready(output, dashboard=f"http://{service.address}/")))
