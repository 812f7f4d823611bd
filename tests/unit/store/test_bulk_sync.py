"""`syncfs`, and where it can be relied upon."""

import errno
import os
import platform

import pytest

from orbitmq.store import bulk_sync
from orbitmq.store.bulk_sync import kernel_version, sync_file_system, tells_of_lost_writes


@pytest.fixture
def descriptor(tmp_path):
    opened = os.open(tmp_path, os.O_RDONLY)
    yield opened
    os.close(opened)


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.18.44-fc-v595", (6, 18)), ("5.17.0", (5, 17)), ("5.4", (5, 4)), ("6", (6,)), ("", ()), ("rolling", ())],
)
def test_a_kernels_version_is_its_releases_first_two_numbers(release, version):
    assert kernel_version(release) == version


@pytest.fixture
def known(monkeypatch, descriptor):
    """Let the file system of the tests be one of those known, whichever it is."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: "6.1.0")
    monkeypatch.setattr(bulk_sync, "_TELLING", EveryType())


class EveryType:
    def __contains__(self, type_of_file_system):
        return type_of_file_system > 0


@pytest.mark.skipif(platform.system() != "Linux", reason="syncfs is Linux's")
def test_a_known_file_system_of_a_new_kernel_tells_of_lost_writes(known, descriptor):
    assert tells_of_lost_writes(descriptor)
    sync_file_system(descriptor)


@pytest.mark.parametrize("release", ["5.16.20", "4.18.0-553.el8", ""])
def test_an_older_kernel_does_not(monkeypatch, known, descriptor, release):
    monkeypatch.setattr(platform, "release", lambda: release)
    assert not tells_of_lost_writes(descriptor)


def test_another_system_does_not(monkeypatch, known, descriptor):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert not tells_of_lost_writes(descriptor)


def test_another_c_library_does_not(monkeypatch, known, descriptor):
    monkeypatch.setattr(bulk_sync, "_libc", object)
    assert not tells_of_lost_writes(descriptor)


def test_an_unknown_file_system_does_not(monkeypatch, known, descriptor):
    monkeypatch.setattr(bulk_sync, "_TELLING", {})
    assert not tells_of_lost_writes(descriptor)


@pytest.mark.skipif(platform.system() != "Linux", reason="syncfs is Linux's")
def test_a_failure_is_told_with_its_number(known):
    assert not tells_of_lost_writes(-1)
    with pytest.raises(OSError, match="Bad file descriptor") as failure:
        sync_file_system(-1)
    assert failure.value.errno == errno.EBADF
