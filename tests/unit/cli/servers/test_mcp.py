"""`orbitmq mcp`."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.real


def test_it_says_where_it_listens(orbitmq, served):
    ready = orbitmq("mcp", "--http", "--port", 0, "-o", "json").json
    assert ready["mcp"] == f"http://{served.services[0].address}/mcp"


def test_it_listens_on_this_machine_alone(orbitmq, served):
    refused = orbitmq("mcp", "--http", "--host", "0.0.0.0", "--port", 0)
    assert refused.code != 0
    assert "host" in refused.err
    assert "there is no login" in refused.err
    assert served.services == []


def test_an_audit_log_that_cannot_be_written_is_refused(orbitmq, served, tmp_path):
    refused = orbitmq("mcp", "--http", "--port", 0, "--allow-changes", "--audit-log", tmp_path / "nowhere" / "file")
    assert refused.code != 0
    assert "nowhere" in refused.err
    assert served.services == []


def test_an_audit_log_without_changes_is_a_usage_error(orbitmq, tmp_path):
    refused = orbitmq("mcp", "--audit-log", tmp_path / "audit.log")
    assert refused.code == 2
    assert "--allow-changes" in refused.err
    assert not (tmp_path / "audit.log").exists()


def test_without_its_packages_it_says_what_to_install():
    code = "import sys; sys.modules['mcp'] = None; from orbitmq.cli.main import main; sys.exit(main(['mcp']))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("pip install 'orbitmq[mcp]'")
    assert ended.stdout == ""


def test_its_help_loads_none_of_its_packages():
    code = "import sys, orbitmq.cli.servers.mcp; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"mcp", "pydantic", "uvicorn", "asyncio", "orbitmq.assistants"} & set(loaded)
