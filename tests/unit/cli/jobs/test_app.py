from __future__ import annotations

import subprocess
import sys

import pytest

from cases import each_case
from orbitmq.cli.jobs.app import OTHER_WORDS, app

pytestmark = pytest.mark.real

JOBS = sorted(command.name or "" for command in app.registered_commands)


@each_case(*JOBS)
def test_a_job_explains_itself_without_spark(job):
    code = (
        "import sys; from orbitmq.cli.main import main; code = main(['job', sys.argv[1], '--help']);"
        "print('pyspark' in sys.modules, code)"
    )
    told = subprocess.run([sys.executable, "-c", code, job], capture_output=True, text=True, check=True).stdout
    assert told.startswith(f"Usage: orbitmq job {job} ")
    assert told.splitlines()[-1] == "False 0"


@pytest.mark.parametrize("job", JOBS)
def test_a_job_hands_settings_on_to_spark(orbitmq, asked, tmp_path, job):
    (tmp_path / "contract").touch()
    words = {
        "archive": ["orders", tmp_path / "d"],
        "contracts": ["orders", tmp_path / "d", "--contract", tmp_path / "contract", "--quarantine", "bad"],
        "replay": [tmp_path, "orders", tmp_path / "d"],
        "dead-letters": ["billing", "--inspect"],
        "trace": [tmp_path / "d"],
    }[job]
    told = orbitmq("job", job, *words, "--conf", "spark.driver.memory=4g", "--conf", "spark.ui.enabled=true")

    assert told.code == 0, told.err
    assert asked[-1][-1] == {"spark.driver.memory": "4g", "spark.ui.enabled": "true"}


def test_a_group_of_commands_it_is():
    assert "archive" in JOBS


@pytest.mark.parametrize("job", OTHER_WORDS)
def test_a_job_that_became_a_command_says_which(orbitmq, job):
    refused = orbitmq("job", job, "billing", "orders")
    assert refused.code == 2
    assert f"No such command '{job}': it is `orbitmq {OTHER_WORDS[job]}` here." in refused.err
    command = [word for word in OTHER_WORDS[job].split() if word.islower() and not word.startswith("--")]
    assert orbitmq(*command, "--help").code == 0
