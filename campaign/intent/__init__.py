"""Tier 1: edits and policies. What would an update do, and does it say and refuse enough?"""
