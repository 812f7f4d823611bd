"""What controllers agree by: a node of Raft with its disk, its peers and its clock."""
