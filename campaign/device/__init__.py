"""Tier 2: emulated devices with a fault in an exchange, in the engine's order of work."""
