"""Emulated hypervisors of the lab."""
