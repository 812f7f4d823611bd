"""The dashboard: pages that show a cluster, ours or Java's, and change nothing."""
