"""Jobs that a user submits: which nodes, what is created, following it, and its verdict."""
