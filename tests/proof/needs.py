"""Checks of the machine for what rows need: each says what is missing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from functools import cache

from cluster.lab import is_available
from interop.peers import why_unavailable
from orbitmq.errors import ConfigError
from orbitmq.spark.driver.session import find_java_home
from raft.differential import why_unavailable as why_no_etcd_nodes


@cache
def _java() -> str | None:
    try:
        find_java_home()
    except ConfigError as error:
        return str(error)
    return None


@cache
def _peers() -> str | None:
    return why_unavailable()


def _root() -> str | None:
    return None if is_available() else "needs root and iproute2, for network namespaces"


def _go() -> str | None:
    return why_no_etcd_nodes()


def _compiler() -> str | None:
    if not sys.platform.startswith("linux"):
        return "the load generator needs Linux"
    return None if any(map(shutil.which, ("cc", "gcc", "clang"))) else "the load generator needs a C compiler"


NEEDS: Mapping[str, Callable[[], str | None]] = {
    "java": _java,
    "peers": _peers,
    "root": _root,
    "compiler": _compiler,
    "go": _go,
}
"""java: Java 17 or newer. peers: a JDK, Maven and the Java RocketMQ of the tests. root: network namespaces. go: Go and the
module of etcd's Raft."""
