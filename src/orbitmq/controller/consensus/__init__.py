"""The consensus of controllers: a node of Raft with its disk, its peers and its clock."""
