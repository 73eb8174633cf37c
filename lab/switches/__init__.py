"""Emulated switches, one folder per switch system."""
