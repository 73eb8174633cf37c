"""The store in which several machines share evidence: a bucket, a registry or a folder.

A run is `evidence.json` and its signature, under a name with its number, end and digest: two
operators who prove at once write two names. The evidence, or in a registry the tag, comes last, so
a run that is listed is whole. Verified runs are copied into this machine's archive; logs stay on
the machine that proved.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from components.acceptance.evidence import Evidence, dump_evidence
from components.acceptance.report.archive import (
    EVIDENCE,
    MOST_RUNS,
    digest_of,
    keep_file,
    run_folder,
    write_whole,
)
from components.acceptance.report.minisign import (
    SignatureError,
    Signer,
    parse_secret_key,
    verify,
)
from components.artefacts.naming import MANIFESTS, Manifest
from components.artefacts.registry import RegistryClient, docker_logins
from components.artefacts.s3 import Bucket, Keys, find_keys
from components.artefacts.web import Access, FetchError, Login
from components.core.errors import RailyardError, UsageError
from components.model.sources import EvidenceStore
from components.model.units import SecretRef

SIGNATURE: Final = f"{EVIDENCE}.minisig"
_SHORT: Final = 16
"""Digits of a digest in a name."""
_NAME: Final = re.compile(r"/run-(\d{4,})\.(\d{8}T\d{6}Z)\.([0-9a-f]{16})$")
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_MISSING: Final = 404
_BROKEN: Final = 500
_TITLE: Final = "org.opencontainers.image.title"
_KIND: Final = "application/vnd.railyard.evidence.v1"
_Found = TypeVar("_Found")


class StoreError(RailyardError):
    """The store refused, or what it gave proves nothing."""

    exit_code = 4


class WrongRunError(StoreError):
    """A run is missing, cut short, or not signed by a trusted key."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that machines share, such as a mounted file system."""

    root: Path

    def names(self, beginning: str) -> list[str]:
        """Sorted."""
        found = self.root.glob(f"{beginning}*/{EVIDENCE}")
        return sorted(path.parent.relative_to(self.root).as_posix() for path in found)

    def read(self, name: str, part: str) -> bytes:
        """FileNotFoundError: it is missing."""
        return (self.root / name / part).read_bytes()

    def write(self, name: str, parts: Mapping[str, bytes]) -> None:
        """A crash leaves no half of a file."""
        for part, body in parts.items():
            write_whole(self.root / name / part, body)


@dataclass(frozen=True, slots=True)
class InBucket:
    """A bucket of S3; a folder of keys is a run."""

    bucket: Bucket
    prefix: str
    """Empty, or with a slash at its end."""

    def names(self, beginning: str) -> list[str]:
        """Sorted."""
        end = f"/{EVIDENCE}"
        keys = self.bucket.list(self.prefix + beginning)
        return [key[len(self.prefix) : -len(end)] for key in keys if key.endswith(end)]

    def read(self, name: str, part: str) -> bytes:
        """FetchError with status 404: it is missing."""
        return self.bucket.get(f"{self.prefix}{name}/{part}")

    def write(self, name: str, parts: Mapping[str, bytes]) -> None:
        """S3 shows an object only when it is whole."""
        for part, body in parts.items():
            self.bucket.put(f"{self.prefix}{name}/{part}", body)


@dataclass(frozen=True, slots=True)
class InRegistry:
    """A repository of a registry; a tagged artefact of OCI is a run, and its layers are the parts.

    A tag has no slash: `dev/run-0007…` is `dev.run-0007…`.
    """

    client: RegistryClient
    repository: str

    def names(self, beginning: str) -> list[str]:
        """Sorted."""
        start = beginning.replace("/", ".")
        tags = self.client.tags(self.repository)
        return sorted(beginning + tag[len(start) :] for tag in tags if tag.startswith(start))

    def read(self, name: str, part: str) -> bytes:
        """FetchError with status 404: it is missing."""
        tag = name.replace("/", ".")
        layers = self.client.manifest(self.repository, tag).data.get("layers", [])
        for layer in layers:
            if layer.get("annotations", {}).get(_TITLE) == part:
                return self.client.blob(self.repository, layer["digest"])
        raise FetchError(f"{self.repository}:{tag}", f"it lacks {part}", "prove again", _MISSING)

    def write(self, name: str, parts: Mapping[str, bytes]) -> None:
        """Upload the parts, then name them by the tag."""
        layers = [self._push(body, {_TITLE: part}) for part, body in parts.items()]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFESTS[0],
            "artifactType": _KIND,
            "config": self._push(b"{}", {}) | {"mediaType": "application/vnd.oci.empty.v1+json"},
            "layers": layers,
        }
        body = json.dumps(manifest).encode()
        whole = Manifest(MANIFESTS[0], f"sha256:{hashlib.sha256(body).hexdigest()}", body)
        self.client.push_manifest(self.repository, name.replace("/", "."), whole)

    def _push(self, body: bytes, notes: Mapping[str, str]) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        with TemporaryDirectory() as folder:
            file = Path(folder, "blob")
            file.write_bytes(body)
            self.client.push_blob(self.repository, digest, file, "")
        kind = {"mediaType": "application/octet-stream", "digest": digest, "size": len(body)}
        return kind | ({"annotations": dict(notes)} if notes else {})


@dataclass(frozen=True, slots=True)
class Store:
    """The store of a site, opened."""

    spec: EvidenceStore
    place: Folder | InBucket | InRegistry

    def check_writable(self, stack: str) -> None:
        """Write a file before the probes run, so that a store that refuses costs no proof.

        Raises:
            StoreError: It refused.
        """
        self._ask(lambda: self.place.write(f"{stack}/check", {"check": b"railyard writes here\n"}))

    def keep(self, stack: str, evidence: Evidence, signer: Signer) -> None:
        """Sign a run, and write it into this machine's archive and the store.

        Raises:
            StoreError: It refused, and the run is on this machine only.
        """
        text, folder = dump_evidence(evidence), run_folder(stack, evidence.run)
        digest = digest_of(text)
        signature = signer.sign(text.encode(), _comment(stack, evidence.run, digest))
        keep_file(folder / SIGNATURE, signature)
        ended = datetime.fromisoformat(evidence.finished_at).astimezone(UTC).strftime(_STAMP)
        name = f"{stack}/run-{evidence.run:04d}.{ended}.{digest[:_SHORT]}"
        parts = {SIGNATURE: signature.encode(), EVIDENCE: text.encode()}
        self._ask(lambda: self.place.write(name, parts))

    def fetch(self, stack: str, run: int, digest: str = "") -> str:
        """Read the evidence of a run, verify it, and copy it into this machine's archive.

        Without a digest it is the latest run of that number.

        Raises:
            StoreError: The store refused.
            WrongRunError: The run is missing, or is not what its name, the state and a trusted key
                say.
        """
        found = self._ask(lambda: self.place.names(f"{stack}/run-{run:04d}."))
        names = [each for each in found if _NAME.search(each)]
        if not (fitting := [each for each in names if each.endswith(digest[:_SHORT])]):
            others = self._ask(lambda: self.place.names(f"{stack}/run-"))
            runs = sorted({int(each[1]) for name in others if (each := _NAME.search(name))})
            what = f"run {run} of {stack}{digest and f' ({digest[:_SHORT]})'} is missing"
            there = f"it has {', '.join(map(str, runs))}" if runs else "it has no run of this stack"
            raise self._wrong(f"{what}; {there}", f"railyard accept {stack}")
        name = max(fitting, key=_ended)
        text, signature = self._verified(stack, name)
        if digest and digest_of(text) != digest:
            what = f"run {run} has the digest {digest_of(text)}, and the state names {digest}"
            raise self._wrong(what, f"railyard accept {stack}")
        self._copy(name, text, signature, run_folder(stack, run))
        return text

    def bring(self, stack: str) -> list[str]:
        """Copy the newest runs that this machine lacks, and return why others do not count.

        Raises:
            StoreError: The store refused.
        """
        found = self._ask(lambda: self.place.names(f"{stack}/run-"))
        wrong: list[str] = []
        names = sorted((each for each in found if _NAME.search(each)), key=_ended)
        for name in names[-MOST_RUNS:]:
            number, _, digest = _parts(name)
            own = run_folder(stack, number)
            other = own.with_name(f"{own.name}-{digest}")
            if _short_digest(own) == digest or (other / EVIDENCE).exists():
                continue
            try:
                text, signature = self._verified(stack, name)
            except WrongRunError as error:
                wrong.append(str(error))
                continue
            self._copy(name, text, signature, other if (own / EVIDENCE).exists() else own)
        return wrong

    def _verified(self, stack: str, name: str) -> tuple[str, str]:
        """Evidence and signature of a run."""
        number, _, short = _parts(name)
        signature, body = self._part(name, SIGNATURE), self._part(name, EVIDENCE)
        digest, again = hashlib.sha256(body).hexdigest(), f"railyard accept {stack}"
        if digest[:_SHORT] != short:
            what = f"run {number} was cut short or changed: {len(body)} bytes with digest {digest}"
            raise self._wrong(f"{what}, and its name says {short}", again, name)
        try:
            comment = verify(body, signature.decode("ascii", "replace"), self.spec.trusted_keys)
        except SignatureError as error:
            fix = f"list the signer's key, if you know it; else {again}"
            raise self._wrong(f"run {number}: its signature {error}", fix, name) from error
        if comment != _comment(stack, number, digest):
            raise self._wrong(f"run {number}: its signature is of {comment}", again, name)
        return body.decode(), signature.decode()

    def _part(self, name: str, part: str) -> bytes:
        try:
            return self._ask(lambda: self.place.read(name, part))
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, FileNotFoundError) or getattr(cause, "status", 0) == _MISSING:
                stack = name.partition("/")[0]
                what = f"run {_parts(name)[0]} is cut short: it lacks {part}"
                raise self._wrong(what, f"railyard accept {stack}", name) from error
            raise

    def _copy(self, name: str, text: str, signature: str, folder: Path) -> None:
        """Put a verified run into the archive; another run of that number moves aside."""
        before = _short_digest(folder)
        if before == _parts(name)[2]:
            return
        if before:
            folder.rename(folder.with_name(f"{folder.name}-{before}"))
        keep_file(folder / SIGNATURE, signature)
        keep_file(folder / EVIDENCE, text)
        os.utime(folder / EVIDENCE, (_ended(name), _ended(name)))

    def _ask(self, call: Callable[[], _Found]) -> _Found:
        """Call the store, twice if it is broken or silent."""
        for tries in (1, 2):
            try:
                return call()
            except FetchError as error:
                if tries == 1 and (error.status >= _BROKEN or not error.status):
                    continue
                where = error.address.partition("?")[0]
                fix = error.fix.replace("the source", "evidence_store")
                raise self._refused(error.what, fix, where) from error
            except OSError as error:
                fix = "free space there, mount the folder, or correct its rights"
                words, file = error.strerror or str(error), error.filename
                raise self._refused(words, fix, str(file or self.spec.address)) from error
        raise AssertionError  # pragma: no cover - the second try returns or raises

    def _refused(self, what: str, fix: str, where: str) -> StoreError:
        return StoreError(self._text(what, fix, where))

    def _wrong(self, what: str, fix: str, name: str = "") -> WrongRunError:
        return WrongRunError(self._text(what, fix, f"{self.spec.address} {name}".rstrip()))

    def _text(self, what: str, fix: str, where: str) -> str:
        return f"evidence_store: {what}.\n  where  {where}\n  fix    {fix}."


def open_store(
    spec: EvidenceStore, secrets: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> Store:
    """Open a store; nothing is contacted yet.

    Raises:
        UsageError: A secret or the access key is missing.
    """
    login = spec.login and Login(spec.login.user, _secret(spec.login.password, secrets))
    scheme, _, rest = spec.address.partition("://")
    if not rest:
        return Store(spec, Folder(Path(spec.address)))
    first, _, path = rest.partition("/")
    if scheme == "oci":
        access = Access(spec.ca, login or docker_logins(environ).get(first))
        return Store(spec, InRegistry(RegistryClient(first, access), path))
    keys = Keys(login.user, login.password) if login else find_keys(environ)
    if keys is None:
        raise UsageError(
            "evidence_store: this machine has no access key for the bucket.\n"
            f"  where  {spec.address}\n"
            "  fix    set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (`aws configure "
            "export-credentials --format env` prints them), or give `login`."
        )
    bucket = Bucket(first, spec.region, keys, spec.endpoint or "", spec.ca)
    return Store(spec, InBucket(bucket, path and f"{path}/"))


def open_signer(spec: EvidenceStore, secrets: Mapping[str, str]) -> Signer:
    """Read the key that signs.

    Raises:
        UsageError: It is missing, is not a key, or is not trusted by the file.
    """
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
    return f"railyard evidence stack={stack} run={run} sha256={digest}"


def _parts(name: str) -> tuple[int, str, str]:
    """Number, end and digest of a run."""
    found = _NAME.search(name)
    return (int(found[1]), found[2], found[3]) if found else (0, "", "")


def _ended(name: str) -> float:
    return datetime.strptime(_parts(name)[1], _STAMP).replace(tzinfo=UTC).timestamp()


def _short_digest(folder: Path) -> str:
    """The digest of the run in a folder; empty if it has none."""
    try:
        return hashlib.sha256((folder / EVIDENCE).read_bytes()).hexdigest()[:_SHORT]
    except OSError:
        return ""
