"""Frozen values that every room speaks: messages, topics, routes, groups. No behaviour beyond invariants."""
