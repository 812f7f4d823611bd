"""`orbitmq debug bundle`: what is in the file, and what is not."""

import json
import zipfile

from cases import each_case
from orbitmq.cli.debug import _file_name


def read(path):
    with zipfile.ZipFile(path) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def test_a_bundle_has_what_a_fault_is_found_with_and_no_message(orbitmq, rocketmq, tmp_path):
    assert orbitmq("send", "orders", "very private", "-n", rocketmq.name_servers).code == 0
    result = orbitmq("debug", "bundle", tmp_path / "b.zip", "-n", rocketmq.name_servers)
    assert result.code == 0
    assert "secrets are hidden, messages are not in it" in result.err
    parts = read(tmp_path / "b.zip")
    (settings,) = (value for name, value in parts.items() if name.endswith("/settings.json"))
    assert settings["brokerName"] == "broker-a"
    assert "orders" in parts["routes.json"]
    assert any(issue["check"] == "single-replica" for issue in parts["issues.json"])
    assert "orbitmq" in parts["versions.json"]["packages"]
    assert any(name.endswith("/events.json") and value for name, value in parts.items())
    assert "very private" not in str(parts)


def test_a_cluster_that_does_not_answer_is_a_bundle_that_says_so(orbitmq, tmp_path):
    assert orbitmq("debug", "bundle", tmp_path / "b.zip", "-n", "127.0.0.1:1").code == 0
    parts = read(tmp_path / "b.zip")
    assert set(parts) == {"error.json", "versions.json"}
    assert "127.0.0.1:1" in parts["error.json"]["error"]


@each_case("../../etc/passwd", "/abs", "a\\b", "..", "", "a\nb")
def test_names_from_the_network_are_no_paths(name):
    found = _file_name(name)
    assert found
    assert not set(found) & set("/\\\n")
    assert not found.startswith(".")
