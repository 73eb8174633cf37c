"""A small Python language host, for an engine that came without one."""
