"""A real registry for the lab and for tests: distribution, built from its pinned module."""
