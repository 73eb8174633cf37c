"""Signatures of Crusoe's API, version 1.0: an HMAC over method, path, query and time.

The form is that of the vendor's Go client (`auth/v1/auth.go`); the body is not signed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from components.core.errors import UsageError

VERSION = "1.0"
Query = Sequence[tuple[str, str]]


def canonical_query(query: Query) -> str:
    """Keys sorted, values of one key in their order, form-encoded (a space is `+`)."""
    return urlencode(sorted(query, key=lambda item: item[0]))


def sign(secret: str, method: str, path: str, query: Query, timestamp: str) -> str:
    """The signature of one request.

    Args:
        secret: The secret key as the vendor shows it: base64 for URLs, without padding.
        method: `GET` and so on.
        path: With the version: `/v1/capacities`.
        query: The parameters as they are sent.
        timestamp: As in `X-Crusoe-Timestamp`.

    Raises:
        UsageError: The secret is no key.
    """
    message = f"{path}\n{canonical_query(query)}\n{method}\n{timestamp}\n"
    digest = hmac.new(_key(secret), message.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _key(secret: str) -> bytes:
    padded = secret + "=" * (-len(secret) % 4)
    try:
        return base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(
            "the secret key of the cloud's API is no key: it is base64 for URLs, without padding.\n"
            "  fix    set it again with `pulumi config set --secret`, as the cloud's console shows "
            "it"
        ) from error


def timestamp_now() -> str:
    """The time in UTC, as RFC 3339 with seconds."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def authorization(access_key: str, signature: str) -> str:
    """The value of the `Authorization` header."""
    return f"Bearer {VERSION}:{access_key}:{signature}"
