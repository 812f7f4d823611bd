"""Consumer and producer groups: settings, members, committed offsets, and queue locks."""
