"""Tier 3: the whole lab, with the real engine."""
