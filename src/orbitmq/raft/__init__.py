"""The Raft consensus algorithm as a state machine without I/O, in the shape of etcd-io/raft. Pure.

Ticks and messages go in (`Raft.tick`, `Raft.step`), a `Ready` comes out: what to persist, to send and to apply, in this
order. `orbitmq.controller.consensus` drives it; docs/explain/raft.md says how, and how it is tested.
"""

from orbitmq.raft.messages import (
    Append,
    Appended,
    AppendRejected,
    CampaignNow,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    Message,
    PreVoteAnswer,
    PreVoteRequest,
    Ready,
    VoteAnswer,
    VoteRequest,
)
from orbitmq.raft.raft import Raft, Role
from orbitmq.raft.values import Entry, HardState, Position, ReadState, Saved, Settings, Snapshot

__all__ = [
    "Append",
    "AppendRejected",
    "Appended",
    "CampaignNow",
    "Entry",
    "HardState",
    "Heartbeat",
    "HeartbeatAnswer",
    "InstallSnapshot",
    "Message",
    "Position",
    "PreVoteAnswer",
    "PreVoteRequest",
    "Raft",
    "ReadState",
    "Ready",
    "Role",
    "Saved",
    "Settings",
    "Snapshot",
    "VoteAnswer",
    "VoteRequest",
]
