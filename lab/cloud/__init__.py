"""Clouds of the lab: their APIs, with state, delays and faults."""
