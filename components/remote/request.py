"""Reading the request on the stdin of an inner command."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from components.core.errors import UsageError
from components.remote.lines import as_json

_Request = TypeVar("_Request")


def read_request(adapter: TypeAdapter[_Request], text: str, what: str) -> _Request:
    """Read a request of JSON.

    Args:
        adapter: Of its class.
        text: What came on stdin.
        what: As the error names it: `reboot request`.

    Raises:
        UsageError: It is none; the text names the first fault.
    """
    try:
        return adapter.validate_json(as_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise UsageError(f"stdin is no {what}: {where}: {first['msg']}") from None
