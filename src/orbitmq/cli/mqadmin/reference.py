"""The reference page of mqadmin's subcommands, made of the table.

`python -m orbitmq.cli.mqadmin.reference > docs/reference/mqadmin.md` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbitmq.cli.mqadmin.table import FAMILIES, SUBCOMMANDS, Subcommand

_START = """\
# mqadmin's subcommands

`orbitmq mqadmin clusterList` and so on are the subcommands of Java's mqadmin 5.3.3, with its options and its output. It works with Java's servers as well as with ours. `orbitmq mqadmin` lists the subcommands,
`orbitmq mqadmin help clusterList` shows the options of one.

Every subcommand takes `-n HOST:PORT[;HOST:PORT]` (`--namesrvAddr`), else the variable `NAMESRV_ADDR`. An access key is in the
file that `ORBITMQ_SECURITY` names, where Java has `conf/tools.yml`.

## Where it differs from Java's

- **Exit codes.** 0 when it is done, 1 when the answer is no or nothing was found, 2 when an option is wrong, 3 when no server answers;
  what is wrong is said on stderr. Java's mqadmin ends with 0 nearly always, and prints stack traces. An option that has no effect in
  Java's is refused.
- **JSON.** `orbitmq mqadmin --output json clusterList` prints one JSON document with all that the subcommand knows.
- **Times.** They are of this machine's time zone, as Java prints them; ages and rates are those of the moment, so two runs differ.

"""


def reference() -> str:
    """Return the page."""
    return _START + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for family, title in FAMILIES.items():
        columns = "| subcommand | what it does | options |" if family else "| subcommand | in Java | why |"
        yield from (f"## {title}", "", columns, "|---|---|---|")
        for one in SUBCOMMANDS.values():
            if one.family == family:
                yield f"| `{one.name}` | {one.summary} | {_options(one) if family else one.reason} |"
        if family:
            yield ""


def _options(one: Subcommand) -> str:
    """Return options as help shows them, those with a choice of one in words."""
    shown = ", ".join(
        f"`{f'-{option.short} ' if option.short else ''}--{option.long}`{' (required)' if option.is_required else ''}"
        for option in one.options
    )
    if one.one_of:
        shown += f"; one of {', '.join(f'`--{name}`' for name in one.one_of)} is needed"
    return shown or "none"


if __name__ == "__main__":
    print(reference(), end="")
