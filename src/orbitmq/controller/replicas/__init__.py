"""The state that controllers agree on: the members, the master and the sync set of every broker group. Pure.

Commands come in, in the same order on every node; each returns an outcome and leaves the same state everywhere.

Source: Java ReplicasInfoManager.
"""
