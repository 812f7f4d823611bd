"""Accounts of RocketMQ 4.x: `plain_acl.yml`, taken over as users and rules."""
