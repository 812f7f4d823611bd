"""`orbitmq nameserver`: a NameServer on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.servers.logging import LogLevel, configure_logging
from orbitmq.cli.servers.options import PORT_MAX, STRICT_HELP, LogLevelOption, MetricsPortOption
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, show_json

if TYPE_CHECKING:
    from orbitmq.nameserver.app import NameServer
    from orbitmq.nameserver.with_controller import NameServerWithController


def nameserver(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Properties file with RocketMQ's own keys.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict/--no-strict", help=STRICT_HELP)] = False,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.  [default: 0.0.0.0]")] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=PORT_MAX, help="0 chooses one and prints it.  [default: 9876]"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", file_okay=False, metavar="DIR", help="Where the key-value store is kept."),
    ] = None,
    metrics_port: MetricsPortOption = None,
    shadow: Annotated[
        str | None,
        typer.Option("--shadow", metavar="HOST:PORT", help="Another NameServer to compare routes with, Java's too."),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", "-p", help="Print the settings that would be used, and exit.")
    ] = False,
    output: FormatOption = Format.TABLE,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Run a NameServer until Ctrl-C or SIGTERM."""
    from orbitmq.cli.servers.serving import serve_until_signal, show_ready
    from orbitmq.nameserver.app import NameServer
    from orbitmq.nameserver.config import NameServerConfig
    from orbitmq.net.loop import run

    configure_logging(log_level)
    given: dict[str, Any] = {
        "bind_address": host,
        "listen_port": port,
        "metrics_port": metrics_port,
        "shadow_address": shadow,
    }
    if data_dir is not None:
        given["kv_config_path"] = data_dir / "kvConfig.json"
        if config is None:  # else changes are saved where the next start reads them
            given["config_store_path"] = data_dir / "namesrv.properties"
    overrides = {name: value for name, value in given.items() if value is not None}
    settings = (
        NameServerConfig.from_properties(config, strict=strict, **overrides)
        if config
        else NameServerConfig(**overrides)
    )
    if print_config:
        _show_settings(settings.to_properties(), output)
        return

    fields: dict[str, str] = {}
    make: Callable[[], NameServer | NameServerWithController] = partial(NameServer, settings)
    if settings.enable_controller_in_namesrv:
        from orbitmq.nameserver.with_controller import NameServerWithController, controller_config
        from orbitmq.settings import read_properties

        controller = controller_config(settings, read_properties(config) if config else {})
        fields["controller"] = controller.address
        make = partial(NameServerWithController, settings, controller)

    def announce(service: NameServer | NameServerWithController) -> None:
        if service.metrics_address:
            fields["metrics"] = service.metrics_address
        show_ready(output, nameserver=service.address, **fields)

    run(serve_until_signal(make, announce))


def _show_settings(settings: Mapping[str, str], output: Format) -> None:
    """Print settings as a properties file holds them, or as one JSON object."""
    if output is Format.JSON:
        show_json(settings)
        return
    for key, value in settings.items():
        print(f"{key}={value}")
