"""Commands of jobs without their jobs."""

from __future__ import annotations

from importlib import import_module

import pytest

from orbitmq.cli.jobs.running import parse_conf
from orbitmq.spark.jobs.cluster import Cluster

JOBS = {
    "archive": ["archive"],
    "contracts": ["hold_to_contract"],
    "dead_letters": ["inspect_letters", "fix_letters"],
    "replay": ["replay"],
    "trace": ["evaluate_traces"],
}
"""The functions that each command calls of its job."""


@pytest.fixture
def asked(monkeypatch):
    """Return the arguments of the job's function, followed by name, master, output and settings of the job."""
    found: list[tuple] = []

    def run(name, plan, check, work, name_servers, security, master, conf, output):
        work(None, Cluster(name_servers, security), plan, "screen")
        found.append((name, master, output, parse_conf(conf)))

    for command, functions in JOBS.items():
        monkeypatch.setattr(f"orbitmq.cli.jobs.{command}.run_job", run)
        job = import_module(f"orbitmq.spark.jobs.{command}")
        for function in functions:
            monkeypatch.setattr(job, function, lambda spark, *arguments: found.append(arguments))
    return found
