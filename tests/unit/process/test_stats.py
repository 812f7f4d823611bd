import asyncio
import gc
import mmap
import os
import time
from pathlib import Path

from orbitmq.process import stats as process_stats
from orbitmq.process.stats import ProcessStats
from waiting import until


def test_a_blocked_loop_shows_as_lag_and_a_collection_as_time(monkeypatch):
    monkeypatch.setattr(process_stats, "LAG_EVERY_MS", 10)

    async def scenario() -> ProcessStats:
        watched = ProcessStats()
        watched.start(asyncio.get_running_loop())
        time.sleep(0.06)
        gc.collect()
        await until(lambda: watched.lag.count)
        watched.stop()
        return watched

    watched = asyncio.run(scenario())
    assert watched.last_lag_ms > 40
    assert watched.gc_count >= 1
    assert watched.gc_ms > 0
    assert watched._on_gc not in gc.callbacks


def test_memory_is_read_from_the_system():
    assert 1_000_000 < process_stats.memory_used() < process_stats.memory_limit()


def test_pages_of_files_are_not_memory_of_the_process_alone(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (32 << 20))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        assert pages[:: mmap.PAGESIZE].count(b"x") == (32 << 20) // mmap.PAGESIZE
        assert 1_000_000 < process_stats.memory_anonymous() <= process_stats.memory_used() - (24 << 20)


def test_where_the_system_does_not_tell_memory_apart_all_of_it_counts(monkeypatch):
    def refuse(self):
        if self == Path("/proc/self/status"):
            raise OSError
        return read(self)

    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", refuse)
    assert abs(process_stats.memory_anonymous() - process_stats.memory_used()) < 8 << 20


def test_the_smaller_of_group_and_machine_limits_counts(monkeypatch, tmp_path):
    group = tmp_path / "memory.max"
    monkeypatch.setattr(process_stats, "_CGROUP_LIMITS", (tmp_path / "none", group))
    group.write_text("max\n")
    machine = process_stats.memory_limit()
    group.write_text("123456\n")
    assert process_stats.memory_limit() == 123456
    group.write_text(f"{machine * 2}\n")
    assert process_stats.memory_limit() == machine


def test_without_a_group_the_machine_is_the_limit(monkeypatch):
    monkeypatch.setattr(process_stats, "_CGROUP_LIMITS", ())
    assert process_stats.memory_limit() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 0
