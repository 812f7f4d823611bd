"""The fixtures that all tests share."""

import asyncio
import gc
import logging
import threading

from orbitmq.process.garbage_collector import short_collections

log = logging.getLogger("orbitmq.shared")


_wake, _done = threading.Event(), threading.Event()


def _serve() -> None:
    _wake.wait()
    log.warning("a server that others share")
    _done.set()


threading.Thread(target=_serve, daemon=True, name="older than all tests").start()  # at collection


def test_caplog_hears_this_test_and_its_threads_and_no_older_ones(caplog):
    thread = threading.Thread(target=log.warning, args=["a thread of this test"])
    thread.start()
    thread.join()
    _wake.set()
    assert _done.wait(60)
    log.warning("this test")
    assert caplog.messages == ["a thread of this test", "this test"]


def test_a_server_that_ends_in_this_process_leaves_the_run_out_of_later_garbage_collections():
    loop = asyncio.new_event_loop()
    with short_collections(loop):
        pass
    loop.close()
    assert gc.get_freeze_count() > 10_000
