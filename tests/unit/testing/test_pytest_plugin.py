import subprocess
import sys

import pytest

from orbitmq.net.loop import run
from unit.testing.support import broker_names, send

pytestmark = pytest.mark.real


def test_the_fixture_is_a_cluster_of_its_own(rocketmq, rocketmq_session):
    run(send(rocketmq.name_servers, topic="mine"))
    assert rocketmq.name_servers != rocketmq_session.name_servers


def test_the_fixtures_have_one_broker_each(rocketmq, rocketmq_session):
    for cluster in (rocketmq, rocketmq_session):
        assert run(broker_names(cluster.name_servers)) == ["broker-a"]


def test_a_project_that_does_not_use_the_fixtures_loads_next_to_nothing():
    script = (
        "import sys, orbitmq.testing.pytest_plugin; print(sorted(n for n in sys.modules if n.startswith('orbitmq.')))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == "['orbitmq.testing', 'orbitmq.testing.pytest_plugin']\n"
