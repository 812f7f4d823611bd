"""The dashboard: pages that show a cluster, ours or Java's, and change it when they are asked to."""
