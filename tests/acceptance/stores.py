"""Stores for tests: a site's `evidence_store`, keys, and runs to keep in it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from components.acceptance.evidence import Evidence, dump_evidence
from components.acceptance.report.archive import digest_of, keep_evidence
from components.acceptance.report.store import Store, open_signer, open_store
from components.model.sources import EvidenceStore
from tests.lab_physics.site import Site, take_evidence

EVIDENCE = take_evidence(Site()).model_copy(
    update={"run": 7, "finished_at": datetime.now(UTC).isoformat(timespec="seconds")}
)


@dataclass(frozen=True)
class Key:
    """A key pair in minisign's form (its man page, "Notes": 158 and 42 bytes)."""

    secret: str
    public: str


def new_key(identifier: bytes = b"railyard") -> Key:
    key = Ed25519PrivateKey.from_private_bytes(identifier * 4)
    public = key.public_key().public_bytes_raw()
    pair = identifier + key.private_bytes_raw() + public
    raw = b"Ed" + b"\0\0" + b"B2" + bytes(48) + pair + bytes(32)
    comment = "untrusted comment: minisign encrypted secret key"
    return Key(
        f"{comment}\n{base64.b64encode(raw).decode()}\n",
        base64.b64encode(b"Ed" + identifier + public).decode(),
    )


KEY = new_key()
OTHER = new_key(b"another1")


def spec_of(address: str, **more: object) -> EvidenceStore:
    return EvidenceStore.model_validate(
        {"address": address, "signing_key": {"secret": "evidence_key"},
         "trusted_keys": [KEY.public], **more}
    )  # fmt: skip


def opened(spec: EvidenceStore, environ: Mapping[str, str] | None = None, **secrets: str) -> Store:
    return open_store(spec, {"evidence_key": KEY.secret, **secrets}, environ or {})


def keep(store: Store, evidence: Evidence = EVIDENCE, key: Key = KEY) -> str:
    """Keep a run as `railyard evidence collect` does, and return its digest."""
    spec = store.spec.model_copy(update={"trusted_keys": (key.public,)})
    keep_evidence("dev", evidence)
    store.keep("dev", evidence, open_signer(spec, {"evidence_key": key.secret}))
    return digest_of(dump_evidence(evidence))
