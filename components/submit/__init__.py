"""Jobs that a user submits: choose the nodes, create the objects, follow the log, judge it."""
