"""A seeded fault campaign: random histories of a site, judged by ten invariants.

`make campaign TIER=1 SEEDS=1000` plays 1,000 histories. One seed is one history, and the same seed
plays the same history again. See campaign/README.md.
"""
