from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq import raft
from orbitmq.controller.consensus.codec import (
    decode_message,
    decode_messages,
    decode_saved,
    encode_message,
    encode_messages,
    encode_saved,
)
from orbitmq.errors import FrameError

NUMBERS = st.integers(0, 2**64 - 1)
IDS = st.integers(0, 2**32 - 1)
POSITIONS = st.builds(raft.Position, NUMBERS, NUMBERS)
ENTRIES = st.lists(st.builds(raft.Entry, NUMBERS, NUMBERS, st.binary(max_size=50)), max_size=4).map(tuple)
SNAPSHOTS = st.builds(raft.Snapshot, POSITIONS, st.binary(max_size=50))
HEAD = (IDS, IDS, NUMBERS)
MESSAGES = st.one_of(
    st.builds(raft.PreVoteRequest, *HEAD, POSITIONS),
    st.builds(raft.PreVoteAnswer, *HEAD, st.booleans()),
    st.builds(raft.VoteRequest, *HEAD, POSITIONS, st.booleans()),
    st.builds(raft.VoteAnswer, *HEAD, st.booleans()),
    st.builds(raft.Append, *HEAD, POSITIONS, ENTRIES, NUMBERS),
    st.builds(raft.Appended, *HEAD, NUMBERS),
    st.builds(raft.AppendRejected, *HEAD, NUMBERS, POSITIONS),
    st.builds(raft.Heartbeat, *HEAD, NUMBERS, NUMBERS),
    st.builds(raft.HeartbeatAnswer, *HEAD, NUMBERS),
    st.builds(raft.InstallSnapshot, *HEAD, SNAPSHOTS),
    st.builds(raft.CampaignNow, *HEAD),
)
SAVED = st.builds(
    raft.Saved, st.builds(raft.HardState, NUMBERS, IDS, NUMBERS), st.one_of(st.none(), SNAPSHOTS), ENTRIES
)


@given(st.lists(MESSAGES, max_size=4))
def test_messages_are_read_as_they_were_written(messages: list[raft.Message]) -> None:
    assert decode_messages(encode_messages(messages)) == messages


@given(SAVED)
def test_saved_state_is_read_as_it_was_written(saved: raft.Saved) -> None:
    assert decode_saved(encode_saved(saved)) == saved


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_short_or_too_long_is_refused(message: raft.Message, data: st.DataObject) -> None:
    content = encode_message(message)
    with pytest.raises(FrameError):
        decode_message(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(FrameError):
        decode_message(content + b"\0")


@given(st.binary(max_size=200))
def test_garbage_raises_nothing_else(content: bytes) -> None:
    for decode in (decode_message, decode_messages, decode_saved):
        with suppress(FrameError):
            decode(content)
