"""A stand-in for the `kubernetes` resource plugin: the same semantics, for the lab only."""
