"""What the cluster holds now: what was applied, read and compared; and what others installed."""
