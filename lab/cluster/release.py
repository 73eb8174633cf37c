"""The release of K3s that the lab plays, in a module of its own: to know it imports nothing."""

from __future__ import annotations

K3S_VERSION = "v1.36.3+k3s1"
"""Stamped into the servers, because a K3s server reports its own version at /version."""
RELEASE_VARIABLE = "RAILYARD_K3S_RELEASE"
"""A later artefact of the mirror names its own release in it."""
PROGRAMS_VARIABLE = "RAILYARD_PROGRAMS"
"""Where the programs of this build lie: `lab.env` of the mirror names it."""
