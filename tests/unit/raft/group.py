"""A small group of nodes whose every step a test decides: no time passes and no message moves by itself."""

from __future__ import annotations

from orbitmq.raft import HardState, Raft, Saved, Settings


def never(_: int) -> int:
    """Draw the shortest time-out."""
    return 0


def settings(id=1, voters=3, **changes):
    return Settings(id=id, voters=frozenset(range(1, voters + 1)), **changes)


def node(id=1, voters=3, saved=None, **changes):
    return Raft(settings(id, voters, **changes), saved or Saved(), never)


def saved(*entries, term=0, vote=0, commit=0, snapshot=None):
    return Saved(HardState(term, vote, commit), snapshot, entries)


def drain(raft):
    """Do all that a node asks for, with a disk that always works; return the Readys."""
    found = []
    while (ready := raft.take_ready()) is not None:
        found.append(ready)
        raft.advance()
    return found


def said(raft):
    """Drain a node and return its messages."""
    return [message for ready in drain(raft) for message in ready.messages]


class Group:
    """Nodes that exchange their messages immediately, except over links in `cut`."""

    def __init__(self, voters=3, **changes):
        self.nodes = {id: node(id, voters, **changes) for id in range(1, voters + 1)}
        self.cut = set()
        self.applied = {id: [] for id in self.nodes}
        self.reads = {id: [] for id in self.nodes}

    def __getitem__(self, id):
        return self.nodes[id]

    def settle(self):
        """Exchange messages until there are none."""
        while messages := [message for id in self.nodes for message in self._turn(id)]:
            for message in messages:
                if not {message.sender, message.receiver} & self.cut:
                    self.nodes[message.receiver].step(message)

    def elect(self, id):
        self.nodes[id].campaign()
        self.settle()
        assert self.nodes[id].role.value == "leader"
        return self.nodes[id]

    def _turn(self, id):
        readys = drain(self.nodes[id])
        self.applied[id] += [entry.data for ready in readys for entry in ready.committed if not entry.is_mark]
        self.reads[id] += [read for ready in readys for read in ready.reads]
        return [message for ready in readys for message in ready.messages]
