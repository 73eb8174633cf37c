"""A client for buckets of S3: put, get and list, signed by AWS Signature Version 4.

Three calls need no package: Amazon's own is larger than all others of Railyard together. Addresses
have the bucket in their path, because every server knows that form.
"""

from __future__ import annotations

import configparser
import hashlib
import hmac
import html
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from components.artefacts.web import Access, Answer, Call, FetchError, fetch_error, open_call
from components.core.record import field, record, replace
from components.core.templates import read_table

_BY_STATUS: Final[Mapping[int, str]] = {
    HTTPStatus.MOVED_PERMANENTLY: "PermanentRedirect",
    HTTPStatus.FORBIDDEN: "AccessDenied",
    HTTPStatus.INSUFFICIENT_STORAGE: "QuotaExceeded",
}
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_EXPECTED: Final = re.compile(r"<Region>([\w-]+)</Region>|expecting '([\w-]+)'")
_IN_HEADER: Final = re.compile(r"[!-~]*")
PAGE: Final = 1000
"""Names of one answer, the most that S3 gives."""
_MOST_PAGES: Final = 100


@record
class Keys:
    """An access key, as Amazon calls a login."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def find_keys(environ: Mapping[str, str]) -> Keys | None:
    """The access key of this machine: AWS_… of the environment, else ~/.aws/credentials."""
    section: Mapping[str, str] = environ
    if "AWS_ACCESS_KEY_ID" not in environ:
        home = Path(environ.get("HOME", "/"))
        file = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE", home / ".aws" / "credentials"))
        parser = configparser.RawConfigParser()
        with suppress(OSError, UnicodeDecodeError, configparser.Error):
            parser.read_string(file.read_text("utf-8"))
        profile = environ.get("AWS_PROFILE", "default")
        found = parser[profile].items() if parser.has_section(profile) else ()
        section = {key.upper(): value for key, value in found}
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    access, secret, token = (section.get(name, "").strip() for name in names)
    return Keys(access, secret, token) if access and secret else None


@record
class Bucket:
    """One bucket of one server."""

    name: str
    region: str
    keys: Keys
    endpoint: str = ""
    """Address of the server; empty for Amazon's in the region."""
    ca: str | None = None

    def put(self, key: str, body: bytes) -> None:
        """Write an object, whole or not at all: S3 compares it with the signed digest."""
        with self._call("PUT", key, {}, body) as answer:
            answer.whole()

    def get(self, key: str) -> bytes:
        """Read an object; FetchError with status 404 if it is missing."""
        with self._call("GET", key, {}) as answer:
            return answer.whole()

    def find(self, prefix: str) -> list[str]:
        """The keys that begin with a prefix, sorted; FetchError if they are too many."""
        query = {"list-type": "2", "max-keys": str(PAGE), "prefix": prefix}
        found: list[str] = []
        for _ in range(_MOST_PAGES):
            with self._call("GET", "", query) as answer:
                text = answer.whole().decode("utf-8", "replace")
            if "<ListBucketResult" not in text:
                raise fetch_error(answer.address, "no-list")
            found += _tags(text, "Key")
            if not (more := _tags(text, "NextContinuationToken")):
                return found
            query["continuation-token"] = more[0]
        raise fetch_error(f"{self.name}/{prefix}", "many-names", count=len(found), prefix=prefix)

    @contextmanager
    def _call(
        self, method: str, key: str, query: Mapping[str, str], body: bytes = b""
    ) -> Generator[Answer]:
        base = self.endpoint.rstrip("/") or f"https://s3.{self.region}.amazonaws.com"
        if not _IN_HEADER.fullmatch(self.keys.access_key + self.keys.session_token):
            raise fetch_error(f"{base}/{self.name}", "unsendable-key")
        path = "/".join(part for part in (self.name, key) if part)
        asked = urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
        address = f"{base}/{quote(path, safe='/-_.~')}{'?' if asked else ''}{asked}"
        kind = {"Content-Type": "application/octet-stream"} if body else {}
        call = Call(address, method, kind, body if method == "PUT" else None)
        call = sign(call, self.region, self.keys, datetime.now(UTC))
        try:
            with open_call(call, Access(self.ca)) as answer:
                yield answer
        except FetchError as error:
            # In the words of S3's error answer (S3 API reference, "Error responses"), with the fix
            # for that code in `s3.yaml`.
            said = error.body.decode("utf-8", "replace")
            code = found[1] if (found := _CODE.search(said)) else _BY_STATUS.get(error.status, "")
            if code in {"", "NoSuchKey"}:
                raise
            words = next(iter(_tags(said, "Message")), "it refuses").rstrip(".")
            causes: Mapping[str, tuple[str, str]] = read_table(__file__, "s3")
            what, fix = causes.get(code, (words, "look that code up in the manual of the server"))
            asks = _EXPECTED.search(said)
            region = asks[1] or asks[2] if asks else error.headers.get("x-amz-bucket-region")
            if fix == causes["PermanentRedirect"][1] and region:
                fix = f"write `region: {region}`"
            raise FetchError(error.address, f"{what} (S3: {code})", fix, error.status) from error


def _tags(text: str, name: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(f"<{name}>([^<]*)</{name}>", text)]


def sign(call: Call, region: str, keys: Keys, now: datetime) -> Call:
    """Sign a request of S3: every header, the query and the digest of the body.

    Source: AWS, "Signature Version 4: create a signed API request". Path and query of the address
    are encoded already, and the query is sorted.
    """
    parts, stamp = urlsplit(call.address), now.strftime("%Y%m%dT%H%M%SZ")
    body = call.data if isinstance(call.data, bytes) else b""
    digest = hashlib.sha256(body).hexdigest()
    headers = {**call.headers, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    signed = {name.lower(): value for name, value in {**headers, "host": parts.netloc}.items()}
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name].strip()}\n" for name in sorted(signed))
    request = f"{call.method}\n{parts.path}\n{parts.query}\n{lines}\n{names}\n{digest}"
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys.secret_key}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    own = f"Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return replace(call, headers=headers, authorization=f"AWS4-HMAC-SHA256 {own}")
