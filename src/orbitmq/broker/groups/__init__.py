"""Client groups: members, settings, committed offsets and queue locks."""
