"""Commands of jobs that watch how a cluster does."""
