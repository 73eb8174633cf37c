"""Routed switches of the lab: Debian's FRR in a network namespace for each, with the real links."""
