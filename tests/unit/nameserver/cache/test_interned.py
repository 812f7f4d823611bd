"""Claims about shared values: one for equal bytes, for as long as somebody has it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.nameserver.cache.interned import Interned


def test_equal_bytes_have_one_value_until_the_last_one_gives_it_back():
    shared = Interned(lambda key: [key])
    first, second = shared.acquire(b"a" * 3), shared.acquire(bytes(bytearray(b"aaa")))
    assert first is second
    assert (len(shared), shared.size) == (1, 3)
    shared.release(b"aaa")
    assert shared.acquire(b"aaa") is first
    shared.release(b"aaa")
    shared.release(b"aaa")
    assert (len(shared), shared.size) == (0, 0)
    assert shared.acquire(b"aaa") is not first


def test_all_end_at_once():
    shared = Interned(len)
    shared.acquire(b"a")
    shared.clear()
    assert (len(shared), shared.size) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from([b"", b"a", b"bb"]), st.booleans())))
def test_the_size_is_that_of_what_is_held(steps: list[tuple[bytes, bool]]):
    shared, held = Interned(lambda key: key), list[bytes]()
    for key, takes in steps:
        if takes:
            held.append(shared.acquire(key))
        elif key in held:
            held.remove(key)
            shared.release(key)
        assert (shared.size, len(shared)) == (sum(map(len, set(held))), len(set(held)))
