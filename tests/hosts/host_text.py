"""The tool for Linux hosts as plain shell text, for tests that run its parts without a host."""

from __future__ import annotations

from components.hosts.scripts import Verb, host_tool

_VERBS = "case $verb in\nobserve)\n"


def library_text() -> str:
    """Everything that every verb starts with."""
    library, found, _ = host_tool().text.partition(_VERBS)
    assert found
    return library


def script_text(verb: Verb) -> str:
    """One verb as a script of its own; what it installs for the boot unit is empty."""
    return f"set -- {verb}\nt=''\n{host_tool().text}"
