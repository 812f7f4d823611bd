"""Tools for assistants: a cluster, ours or Java's, over the Model Context Protocol. Changes are refused unless they are allowed."""
