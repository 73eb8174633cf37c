"""The patterns of the model in words, and what a user probably meant who missed one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from components.model.drivers import GPU_DRIVER, PACKAGE_NAME
from components.model.firmware import FIRMWARE_VERSION
from components.model.infiniband import PARTITION_NAME
from components.model.kernel import SYSCTL_VALUE
from components.model.sriov import CARD_SERIAL
from components.model.units import (
    DNS_LABEL,
    EXACT_RELEASE,
    IMAGE,
    K3S_RELEASE,
    LOGIN,
    PINNED_SOURCE,
    POOL_NAME,
    PORT_TARGET,
    REGISTRY,
    RELEASE,
    SHA_256,
)
from components.model.waivers import REASON, RULE_NAME


def _as_label(text: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:63].strip("-")


def _as_key(text: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")


def _as_partition(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:32]


def _no_idea(_text: str) -> str:
    return ""


PATTERNS: Final[dict[str, tuple[str, Callable[[str], str]]]] = {
    DNS_LABEL: (
        "a name of lower-case letters, digits and inner hyphens, at most 63 long",
        _as_label,
    ),
    POOL_NAME: (
        "a name of lower-case letters, digits and inner hyphens, at most 58 long before a number",
        lambda text: _as_label(text)[:58].strip("-"),
    ),
    SHA_256: ("a SHA-256 checksum of 64 hexadecimal digits in small letters", str.lower),
    PORT_TARGET: (
        "a text of the form <host>/<rail>, for example gpu01/rail-0, or <switch>:<port>",
        _no_idea,
    ),
    LOGIN: ("a login name of letters, digits, dots, hyphens and underscores", _no_idea),
    PARTITION_NAME: (
        "a name of at most 32 letters, digits, hyphens and underscores that begins with a letter",
        _as_partition,
    ),
    IMAGE: ("an image such as 192.168.100.10:5000/nccl-roce-test:1.0, without a scheme", _no_idea),
    FIRMWARE_VERSION: ("a firmware release such as 28.43.1014", _no_idea),
    SYSCTL_VALUE: ("a number, or a text of letters, digits, spaces and ._:/,+-", _no_idea),
    GPU_DRIVER: ("a version of a GPU driver such as 580.126.20", _no_idea),
    PACKAGE_NAME: (
        "the name of a package without a version, such as doca-ofed",
        lambda text: text.partition("=")[0],
    ),
    CARD_SERIAL: (
        "a serial number as `lspci -vv` shows it, such as MT2012X12345",
        str.strip,
    ),
    RULE_NAME: ("the name of a rule, such as numa-leaf", _no_idea),
    REASON: ("a reason in words", _no_idea),
    PINNED_SOURCE: (
        "an absolute path on the hosts or an https address",
        lambda text: re.sub(r"^http://", "https://", text),
    ),
    K3S_RELEASE: (
        "an exact release of K3s such as v1.36.3+k3s1",
        lambda text: f"v{text.removeprefix('v').partition('+')[0]}+k3s1",
    ),
    EXACT_RELEASE: ("one exact release of a chart such as v26.3.3", _no_idea),
    REGISTRY: (
        "a registry of the form host:port such as 192.168.100.10:5000, without a scheme or a path",
        lambda text: re.sub(r"^https?://", "", text).partition("/")[0],
    ),
    RELEASE: ("a version such as 3.2.0 or 24.10-1.1.4.0", _no_idea),
    r"^[a-z][a-z0-9_]*$": ("a name of lower-case letters, digits and underscores", _as_key),
}
"""Pattern to what it means, and to a guess at what a refused text was meant to be."""
_VERSIONS: Final = frozenset({K3S_RELEASE, EXACT_RELEASE, GPU_DRIVER, FIRMWARE_VERSION, RELEASE})
"""Patterns of versions, of which a bare number is at most the beginning."""


def words_of(pattern: str) -> str:
    """What a pattern means."""
    return PATTERNS[pattern][0] if pattern in PATTERNS else f"a text of the form {pattern}"


def mend_text(pattern: str, text: str) -> str:
    """What the user probably meant by a refused text, if the pattern takes it; else nothing."""
    better = PATTERNS[pattern][1](text) if pattern in PATTERNS else ""
    return better if better and re.match(pattern, better) else ""


def offer_number(pattern: str, value: float) -> str:
    """How to write a text of a pattern where the file has a number.

    The number in quotes is offered where it can be what was meant: YAML reads 24.10 as 24.1.
    """
    fits = isinstance(value, int) and pattern not in _VERSIONS and re.match(pattern, str(value))
    if fits:
        return f'write a text, with quotes: "{value}".'
    return f"write {words_of(pattern)}, in quotes."
