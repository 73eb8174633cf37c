"""What proves the path: each probe, what it creates or runs, and where."""
