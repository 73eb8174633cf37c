"""The store in which several machines share evidence: a bucket, a registry or a folder.

A run is `evidence.json` and its signature, under a name with its number, end and digest: two
operators who prove at once write two names. The evidence, or in a registry the tag, comes last, so
a run that is listed is whole. Verified runs are copied into this machine's archive; logs stay on
the machine that proved.

Signatures have the format of minisign (jedisct1.github.io/minisign), whose tools verify them too: a
key is Ed25519 and an identifier of 8 bytes. It signs the BLAKE2b digest of a text; a second
signature covers the first one and the trusted comment.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from components.acceptance.evidence import Evidence, dump_evidence, parse_evidence
from components.acceptance.report import archive
from components.acceptance.report.archive import EVIDENCE, digest_of, keep_file, run_folder
from components.artefacts.naming import MANIFESTS, Manifest
from components.artefacts.registry import RegistryClient, docker_logins
from components.artefacts.s3 import Bucket, Keys, find_keys
from components.artefacts.web import Access, FetchError, Login
from components.core.errors import RailyardError, UsageError
from components.core.limits import LOG_BYTES, read_file
from components.core.record import record
from components.model.sources import EvidenceStore
from components.model.units import SecretRef

SIGNATURE: Final = f"{EVIDENCE}.minisig"
_SHORT: Final = 16
"""Digits of a digest in a name."""
_NAME: Final = re.compile(r"run-(\d{4,})\.(\d{8}T\d{6}Z)\.([0-9a-f]{16})")
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_RACED: Final = HTTPStatus.BAD_REQUEST
"""The lab's registry (distribution 3.0) answers so if machines push the same blob at once."""
_RACES: Final = 4
"""Calls until such an answer counts."""
_TITLE: Final = "org.opencontainers.image.title"
_WORDS: Final = b"Railyard writes here before it proves.\n"
_Found = TypeVar("_Found")
_KEY: Final = b"Ed"
_HASHED: Final = b"ED"
"""A signature of the text's digest; signatures of whole texts (`Ed`) are older, and refused."""
_ID: Final = slice(2, 10)
_SECRET_ID: Final = slice(54, 62)
_SECRET: Final = slice(62, 94)
"""The seed in a secret key, after algorithms (6), salt (32), two limits (16) and the identifier."""
_SECRET_BYTES: Final = 158
_SIGNATURE_BYTES: Final = 74
_COMMENT: Final = "trusted comment: "
_LINES: Final = 4


class StoreError(RailyardError):
    """The store refused, or what it gave proves nothing."""

    exit_code = 4


class WrongRunError(StoreError):
    """A run is missing, cut short, or not signed by a trusted key."""

    exit_code = 1


@record
class _Folder:
    """A folder that machines share, such as a mounted file system, with a bucket's methods."""

    root: Path

    def find(self, prefix: str) -> list[str]:
        # To `glob`, a folder that is not mounted or not readable is an empty one.
        own = (self.root / prefix).parent
        if own in self.root.iterdir():
            next(own.iterdir(), None)
        return [str(path.relative_to(self.root)) for path in self.root.glob(f"{prefix}*/*")]

    def get(self, key: str) -> bytes:
        try:
            return read_file(self.root / key, LOG_BYTES)
        except UsageError as error:
            what = f"it is not a regular file, or longer than {LOG_BYTES >> 20} MiB"
            fix = "find out who wrote it, and remove it"
            raise WrongRunError(_report(what, str(self.root / key), fix)) from error

    def put(self, key: str, body: bytes) -> None:
        next(self.root.iterdir(), None)  # a folder that is not mounted is not made on this disk
        archive.write_whole(self.root / key, body)


@record
class _Files:
    """Runs as files of a folder, or as objects of a bucket; both show only what is whole."""

    place: _Folder | Bucket
    prefix: str = ""
    """Empty, or with a slash at its end."""

    def names(self, stack: str) -> list[str]:
        keys = self.place.find(f"{self.prefix}{stack}/run-")
        return [key.split("/")[-2] for key in keys if key.endswith(f"/{EVIDENCE}")]

    def read(self, stack: str, name: str, part: str) -> bytes:
        return self.place.get(f"{self.prefix}{stack}/{name}/{part}")

    def write(self, stack: str, name: str, parts: Mapping[str, bytes]) -> None:
        for part, body in parts.items():
            self.place.put(f"{self.prefix}{stack}/{name}/{part}", body)

    def check(self, stack: str) -> None:
        self.place.put(f"{self.prefix}{stack}/check", _WORDS)


@record
class _InRegistry:
    """A repository of a registry. A run is an artefact of OCI with the tag `STACK.NAME`."""

    client: RegistryClient
    repository: str

    def names(self, stack: str) -> list[str]:
        tags = self.client.tags(self.repository)
        return [tag[len(stack) + 1 :] for tag in tags if tag.startswith(f"{stack}.")]

    def read(self, stack: str, name: str, part: str) -> bytes:
        tag = f"{stack}.{name}"
        for layer in self.client.manifest(self.repository, tag).data.get("layers", []):
            if layer.get("annotations", {}).get(_TITLE) == part:
                return self.client.blob(self.repository, layer["digest"])
        raise FetchError(
            f"{self.repository}:{tag}", f"it lacks {part}", "prove again", HTTPStatus.NOT_FOUND
        )

    def write(self, stack: str, name: str, parts: Mapping[str, bytes]) -> None:
        self._put(parts, f"{stack}.{name}")

    def check(self, stack: str) -> None:
        """Write a manifest, and read it. It has no tag, since a tag might be immutable."""
        del stack
        self.client.manifest(self.repository, self._put({"check": _WORDS}))

    def _put(self, parts: Mapping[str, bytes], tag: str = "") -> str:
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFESTS[0],
            "artifactType": "application/vnd.railyard.evidence.v1",
            "config": self._push(b"{}") | {"mediaType": "application/vnd.oci.empty.v1+json"},
            "layers": [
                self._push(body) | {"annotations": {_TITLE: part}} for part, body in parts.items()
            ],
        }
        body = json.dumps(manifest).encode()
        whole = Manifest(MANIFESTS[0], f"sha256:{sha256(body).hexdigest()}", body)
        self.client.push_manifest(self.repository, tag or whole.digest, whole)
        return whole.digest

    def _push(self, body: bytes) -> dict[str, object]:
        digest = f"sha256:{sha256(body).hexdigest()}"
        with TemporaryDirectory() as folder:
            file = Path(folder, "blob")
            file.write_bytes(body)
            self.client.push_blob(self.repository, digest, file, "")
        return {"mediaType": "application/octet-stream", "digest": digest, "size": len(body)}


@dataclass(frozen=True, slots=True, order=True)
class _Listed:
    """A run by its name; sorted by its end."""

    ended: str
    run: int
    digest: str
    """The first digits of its digest."""

    @classmethod
    def of(cls, text: str) -> _Listed:
        evidence = parse_evidence(text)
        ended = datetime.fromisoformat(evidence.finished_at).astimezone(UTC).strftime(_STAMP)
        return cls(ended, evidence.run, digest_of(text)[:_SHORT])

    @property
    def name(self) -> str:
        return f"run-{self.run:04d}.{self.ended}.{self.digest}"


@record
class Store:
    """The store of a site, opened."""

    spec: EvidenceStore
    place: _Files | _InRegistry

    def check_writable(self, stack: str) -> None:
        """Raise StoreError before the probes run, so that a store that refuses costs no proof."""
        self._ask(lambda: self.place.check(stack))

    def keep(self, stack: str, evidence: Evidence, signer: Signer) -> None:
        """Sign a run, and write it into this machine's archive and the store; or StoreError."""
        text = dump_evidence(evidence)
        signature = signer.sign(text.encode(), _comment(stack, evidence.run, digest_of(text)))
        keep_file(run_folder(stack, evidence.run) / SIGNATURE, signature)
        parts = {SIGNATURE: signature.encode(), EVIDENCE: text.encode()}
        self._ask(lambda: self.place.write(stack, _Listed.of(text).name, parts))

    def fetch(self, stack: str, run: int, digest: str = "") -> str:
        """Read the evidence of a run, verify it, and copy it into this machine's archive.

        Without a digest it is the latest run of that number. WrongRunError: the run is missing, or
        is not what its name, the state and a trusted key say.
        """
        runs = self.runs(stack)
        found = [each for each in runs if each.run == run and digest[:_SHORT] in ("", each.digest)]
        if not found:
            which = f"run {run} of {stack}{digest and f' ({digest[:_SHORT]})'}"
            there = ", ".join(map(str, sorted({each.run for each in runs}))) or "no run of it"
            fix = f"railyard accept {stack}" if digest or not runs else "name one of these runs"
            what = f"{which} is missing; the store has {there}"
            raise WrongRunError(_report(what, self.spec.address, fix))
        text, signature = self._verified(stack, found[-1])
        if digest not in ("", digest_of(text)):
            what = f"run {run} has the digest {digest_of(text)}, and the state names {digest}"
            raise self._wrong(what, stack, found[-1].name)
        self._copy(found[-1], text, signature, run_folder(stack, run), aside=True)
        return text

    def bring(self, stack: str) -> list[str]:
        """Copy the newest runs that this machine lacks, and return why others do not count."""
        wrong: list[str] = []
        for each in self.runs(stack)[-archive.MOST_RUNS :]:
            own = run_folder(stack, each.run)
            other = own.with_name(f"{own.name}-{each.digest}")
            if each.digest in (_digest_in(own), _digest_in(other)):
                continue
            try:
                text, signature = self._verified(stack, each)
            except WrongRunError as error:
                wrong.append(str(error))
                continue
            self._copy(each, text, signature, other if _digest_in(own) else own)
        return wrong

    def runs(self, stack: str) -> list[_Listed]:
        """The runs of a stack, by their ends; or StoreError."""
        names = map(_NAME.fullmatch, self._ask(lambda: self.place.names(stack)))
        return sorted(_Listed(each[2], int(each[1]), each[3]) for each in names if each)

    def _verified(self, stack: str, listed: _Listed) -> tuple[str, str]:
        try:
            read = partial(self.place.read, stack, listed.name)
            signature = self._ask(partial(read, SIGNATURE)).decode("ascii", "replace")
            body = self._ask(partial(read, EVIDENCE))
            comment, text = verify(body, signature, self.spec.trusted_keys), body.decode()
            found = _Listed.of(text)
        except UsageError as error:
            why = "is of evidence that this release cannot read"
            why = str(error) if isinstance(error, SignatureError) else why
            what = f"run {listed.run}: its signature {why}"
            raise self._wrong(what, stack, listed.name) from error
        except StoreError as error:
            cause = error.__cause__
            not_found = getattr(cause, "status", 0) == HTTPStatus.NOT_FOUND
            if not_found or isinstance(cause, FileNotFoundError):
                what = f"run {listed.run} is cut short: a part is missing"
                raise self._wrong(what, stack, listed.name) from error
            raise
        if (comment, found) != (_comment(stack, listed.run, digest_of(text)), listed):
            why = f"is of {found.name}, with the comment: {comment}"
            raise self._wrong(f"run {listed.run}: its signature {why}", stack, listed.name)
        return text, signature

    def _copy(
        self, listed: _Listed, text: str, signature: str, folder: Path, *, aside: bool = False
    ) -> None:
        """Put a verified run into the archive; another run in that folder moves aside."""
        before = _digest_in(folder)
        if before == listed.digest:
            return
        if before and aside:
            other = folder.with_name(f"{folder.name}-{before}")
            if _digest_in(other) == before:  # it was moved aside before, with its logs
                shutil.rmtree(folder)
            else:
                folder.rename(other)
        keep_file(folder / SIGNATURE, signature)
        keep_file(folder / EVIDENCE, text)
        ended = datetime.strptime(listed.ended, _STAMP).replace(tzinfo=UTC).timestamp()
        os.utime(folder / EVIDENCE, (ended, ended))  # the archive is sorted by it

    def _ask(self, call: Callable[[], _Found], tries: int = 1) -> _Found:
        """Call the store, twice if it is broken or silent."""
        try:
            return call()
        except FetchError as error:
            broken = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or not error.status
            if (broken and tries == 1) or (error.status == _RACED and tries < _RACES):
                return self._ask(call, tries + 1)
            fix = error.fix.replace("the source", "evidence_store")
            where = error.address.partition("?")[0]
            raise StoreError(_report(error.what, where, fix)) from error
        except OSError as error:
            fix = "free space there, mount the folder, or correct its rights"
            where = str(error.filename or self.spec.address)
            raise StoreError(_report(error.strerror or str(error), where, fix)) from error

    def _wrong(self, what: str, stack: str, name: str) -> WrongRunError:
        fix = f"find out who wrote it; railyard accept {stack}"
        return WrongRunError(_report(what, f"{self.spec.address} {stack}/{name}", fix))


def _report(what: str, where: str, fix: str) -> str:
    return f"evidence_store: {what}.\n  where  {where}\n  fix    {fix}."


def open_store(
    spec: EvidenceStore, secrets: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> Store:
    """Open a store without contacting it; UsageError if a secret or the access key is missing."""
    login = spec.login and Login(spec.login.user, _secret(spec.login.password, secrets))
    scheme, _, rest = spec.address.partition("://")
    if not rest:
        return Store(spec, _Files(_Folder(Path(spec.address))))
    first, _, path = rest.partition("/")
    if scheme == "oci":
        access = Access(spec.ca, login or docker_logins(environ).get(first))
        return Store(spec, _InRegistry(RegistryClient(first, access), path))
    keys = Keys(login.user, login.password) if login else find_keys(environ)
    if keys is None:
        fix = (
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (`aws configure "
            "export-credentials --format env` prints them), or give `login`"
        )
        what = "this machine has no access key for the bucket"
        raise UsageError(_report(what, spec.address, fix))
    bucket = Bucket(first, spec.region, keys, spec.endpoint or "", spec.ca)
    return Store(spec, _Files(bucket, path and f"{path}/"))


def open_signer(spec: EvidenceStore, secrets: Mapping[str, str]) -> Signer:
    """Read the key that signs; UsageError if it is missing, no key, or not trusted by the file."""
    name = spec.signing_key.name
    try:
        signer = parse_secret_key(_secret(spec.signing_key, secrets))
    except SignatureError as error:
        raise UsageError(
            f"evidence_store.signing_key: the secret {name} {error}.\n"
            "  fix    store the file that `minisign -G -W -s FILE` writes, or its second line."
        ) from error
    if signer.public not in spec.trusted_keys:
        raise UsageError(
            f"evidence_store.trusted_keys lacks {signer.public}, the key of the secret {name}.\n"
            "  fix    add it, or store the secret key of a listed one."
        )
    return signer


def _secret(reference: SecretRef, secrets: Mapping[str, str]) -> str:
    if reference.name not in secrets:
        raise UsageError(
            f"evidence_store: the secret {reference.name} is not set.\n"
            f"  fix    pulumi config set --secret railyard:{reference.name}, or set "
            f"RAILYARD_SECRET_{reference.name.upper()} in the environment."
        )
    return secrets[reference.name]


def _comment(stack: str, run: int, digest: str) -> str:
    """The trusted comment, which binds the text to its stack."""
    return f"railyard evidence stack={stack} run={run} sha256={digest}"


def _digest_in(folder: Path) -> str:
    try:
        return sha256((folder / EVIDENCE).read_bytes()).hexdigest()[:_SHORT]
    except OSError:
        return ""


class SignatureError(UsageError):
    """A signature that proves nothing; the text is one clause about it."""


@record
class Signer:
    """A secret key without a password: its store encrypts it."""

    identifier: bytes
    key: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> str:
        """The public key, as the second line of minisign's file has it."""
        raw = self.key.public_key().public_bytes_raw()
        return base64.b64encode(_KEY + self.identifier + raw).decode()

    def sign(self, text: bytes, comment: str) -> str:
        """The signature file of a text; `comment` is one line, and is signed too."""
        own = self.key.sign(hashlib.blake2b(text).digest())
        whole = base64.b64encode(self.key.sign(own + comment.encode())).decode()
        first = base64.b64encode(_HASHED + self.identifier + own).decode()
        return f"untrusted comment: signature by railyard\n{first}\n{_COMMENT}{comment}\n{whole}\n"


def parse_secret_key(text: str) -> Signer:
    """Read a secret key without a password: minisign's file, or its second line alone."""
    raw = _decode((text.strip().splitlines() or [""])[-1])
    if len(raw) != _SECRET_BYTES or not raw.startswith(_KEY):
        raise SignatureError("is not a secret key of minisign")
    if raw[2:4] != b"\0\0":
        raise SignatureError("is a key with a password, which `minisign -C -W` removes")
    return Signer(raw[_SECRET_ID], Ed25519PrivateKey.from_private_bytes(raw[_SECRET]))


def verify(text: bytes, signature: str, trusted: Sequence[str]) -> str:
    """Verify the `.minisig` file of a text by one of some public keys; return its trusted comment.

    Raises: SignatureError: it is not a signature, of no trusted key, or of another text.
    """
    lines = signature.splitlines()
    raw, whole = (_decode(lines[1]), _decode(lines[3])) if len(lines) == _LINES else (b"", b"")
    if len(raw) != _SIGNATURE_BYTES or not raw.startswith(_HASHED):
        raise SignatureError("is not a signature of minisign")
    keys = {key[_ID]: key for key in map(_decode, trusted)}
    if (key := keys.get(raw[_ID])) is None:
        name = raw[_ID][::-1].hex().upper()
        raise SignatureError(f"is by the key {name}, which `trusted_keys` does not list")
    comment, public = lines[2].removeprefix(_COMMENT), Ed25519PublicKey.from_public_bytes(key[10:])
    try:
        public.verify(raw[10:], hashlib.blake2b(text).digest())
        public.verify(whole, raw[10:] + comment.encode())
    except InvalidSignature:
        raise SignatureError("does not hold: the text was cut short or changed") from None
    return comment


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
