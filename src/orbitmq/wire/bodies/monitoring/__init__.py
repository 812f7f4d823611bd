"""What a broker tells of its work: figures of one thing, how far all groups are behind, who follows it."""
