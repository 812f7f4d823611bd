"""Options of the commands that run servers, so that they are spelt and explained in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orbitmq.cli.servers.logging import LogLevel
from orbitmq.cli.terminal.options import parse_pairs

PORT_MAX = 65535
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="From which severity on to log, on stderr.")]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", exists=True, dir_okay=False, metavar="FILE", help="Properties file with RocketMQ's own keys."
    ),
]
STRICT_HELP = "Refuse keys of the file that neither RocketMQ 5.3.3 nor orbitmq knows; else name them in the log."
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the broker under RocketMQ's key. May be repeated."),
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port", min=-1, max=PORT_MAX, help="HTTP port of /metrics, /healthz, /readyz.  [default: none]"
    ),
]


def refuse_options_before(context: typer.Context) -> None:
    """Refuse options that would run a server before a command that runs none: they would count for nothing."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            command = context.invoked_subcommand
            raise typer.BadParameter(
                f"it runs a {context.info_name}; options of `{command}` stand behind that word", param=parameter
            )


def parse_settings(pairs: list[str] | None, chosen: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the broker's settings of `KEY=VALUE` words.

    Args:
        chosen: keys that other options choose.

    Raises:
        ConfigError: a key is none of a broker's, or chosen.
    """
    from orbitmq.broker.config import BrokerConfig
    from orbitmq.errors import ConfigError
    from orbitmq.settings import fields_by_key

    found = parse_pairs(pairs or [], "--set")
    for key in found:
        if key in chosen or key not in fields_by_key(BrokerConfig):
            raise ConfigError("--set", key, "a setting of the broker that has no option of its own")
    return found
