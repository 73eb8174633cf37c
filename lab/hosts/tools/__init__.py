"""Emulated tools of a lab host, one module for each family."""
