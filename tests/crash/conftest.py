"""Small disks for tests of full ones."""

import os
import subprocess
import sys

import pytest

from machine import give_up


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        give_up("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mounted.returncode:
        give_up(f"mounting a tmpfs is not allowed here: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)
