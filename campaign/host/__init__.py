"""Tier 4: the tool of a Linux host, killed at any of its commands, on a host that is a folder."""
