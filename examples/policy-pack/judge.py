"""What the policies refuse, as plain functions of a resource's properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

SITE = "railyard:index:Site"
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_PROD = re.compile(r"(^|[-_.])prod(uction)?($|[-_.])")


def without_lock(kind: str, props: Mapping[str, Any]) -> str:
    """A site needs the lock that `railyard pin` writes."""
    if kind != SITE or props.get("locked"):
        return ""
    return f"{props.get('site')} has no lock. Run `railyard pin {props.get('site')}`."


def unproven_in_prod(kind: str, props: Mapping[str, Any], urn: str) -> str:
    """A stack of production must fail if acceptance does not prove the network."""
    stack = urn.removeprefix("urn:pulumi:").partition("::")[0]
    if kind != SITE or not _PROD.search(stack) or props.get("gate") == "fail":
        return ""
    return (
        f"{props.get('site')} has acceptance.gate: {props.get('gate')}, so stack {stack} would"
        " keep a network that is not proven. Write `gate: fail`."
    )


def plain_secret(kind: str, props: Mapping[str, Any]) -> str:
    """Secrets come from the stack's configuration, and are in no command line."""
    if kind == SITE and (names := props.get("plainSecrets")):
        return f"these secrets are in plain text in the program: {', '.join(names)}. Use config."
    lines = (props.get(key) for key in ("create", "update", "delete"))
    if kind.startswith("command:") and any(map(_PRIVATE_KEY.search, _texts(*lines))):
        return "a command line contains a private key. Hand it over in `environment`."
    return ""


def _texts(*values: object) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))
