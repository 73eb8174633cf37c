"""How the emulated cloud checks who calls: its own reading of Crusoe's API, version 1.0.

Source: the vendor's Go client, `auth/v1/auth.go` (lab/sources.md). Nothing of it is
shared with the product's own signing, so that one mistake is not made on both sides.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from urllib.parse import quote_plus


def expected_header(
    access_key: str,
    secret_key: str,
    verb: str,
    target: tuple[str, Sequence[tuple[str, str]]],
    at: str,
) -> str:
    """The only value of `Authorization` that is let in.

    Args:
        access_key: Of the credential.
        secret_key: Of the credential: base64 for URLs, without padding.
        verb: HTTP method.
        target: Path with the version, and the parameters of the query as they came.
        at: The header `X-Crusoe-Timestamp`.
    """
    path, parameters = target
    by_key: dict[str, list[str]] = {}
    for key, value in parameters:
        by_key.setdefault(key, []).append(value)
    query = "&".join(
        f"{quote_plus(key)}={quote_plus(value)}" for key in sorted(by_key) for value in by_key[key]
    )
    signed = "".join(f"{part}\n" for part in (path, query, verb, at))
    key = base64.urlsafe_b64decode(secret_key.encode() + b"=" * (-len(secret_key) % 4))
    mac = hmac.digest(key, signed.encode(), hashlib.sha256().name)
    return f"Bearer 1.0:{access_key}:{base64.urlsafe_b64encode(mac).decode().strip('=')}"
