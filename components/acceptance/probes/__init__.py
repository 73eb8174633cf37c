"""The probes of the path: their objects or commands, and their hosts."""
