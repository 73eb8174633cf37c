"""What proves the path: each probe, its objects or commands, and its hosts."""
