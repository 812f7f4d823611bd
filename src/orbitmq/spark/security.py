"""The file that says how a query signs and encrypts.

The driver and every executor read it, so that no secret is an option: options are part of plans, tasks and logs.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import SparkFiles

from orbitmq.net.security.client_security import ClientSecurity, load_security


def read_security(name: str | None) -> ClientSecurity:
    """Return what the option securityFile says; without it nothing is signed or encrypted.

    Args:
        name: a path, or the name of a file that `SparkContext.addFile` or `--files` has sent along.

    Raises:
        ConfigError: the file or a certificate that it names cannot be used. Never shows a secret.
    """
    return load_security(_find(name) if name else None)


def _find(name: str) -> Path:
    path = Path(name).expanduser()
    if path.exists():
        return path
    try:
        sent = Path(SparkFiles.getRootDirectory()) / path
    except AssertionError:  # there is no Spark in this process
        return path
    return sent if sent.exists() else path
