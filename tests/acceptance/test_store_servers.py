"""The store on real servers: S3 by versitygw, and a registry by distribution, both with TLS."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from components.acceptance.evidence import dump_evidence
from components.acceptance.report.archive import latest_evidence
from components.acceptance.report.store import Store, StoreError, WrongRunError, open_signer
from components.model.sources import EvidenceStore
from lab.cluster.pki import KeyPair
from lab.registry.s3 import S3Place, run_s3
from tests.acceptance.stores import EVIDENCE, KEY, keep, opened, spec_of
from tests.artefacts.certificates import ADDRESS, Authority
from tests.artefacts.registry_server import PASSWORD, USER, registry

pytestmark = pytest.mark.lab
AUTHORITY = Authority("the store's")
KEYS = {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD}
REGION = "eu-central-1"


@dataclass(frozen=True)
class Served:
    """One server with an empty store."""

    spec: EvidenceStore
    data: Path
    environ: dict[str, str] = field(default_factory=dict[str, str])
    secrets: dict[str, str] = field(default_factory=dict[str, str])

    def open(self, **changes: object) -> Store:
        """The store, with other keys in the site file."""
        spec = EvidenceStore.model_validate(self.spec.model_dump() | changes)
        return opened(spec, self.environ, **self.secrets)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    folder = tmp_path_factory.mktemp("s3")
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        host = f"{ADDRESS}:{free.getsockname()[1]}"
    pair = KeyPair(*AUTHORITY.write(folder))
    place = S3Place(host, folder, pair, AUTHORITY.pem, USER, PASSWORD, REGION)
    (place.data / "proofs").mkdir(parents=True)
    spec = spec_of(
        "s3://proofs/rack7",
        endpoint=f"https://{host}",
        ca=AUTHORITY.pem,
        region=REGION,
    )
    with run_s3(place):
        yield Served(spec, place.data, KEYS)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    folder = tmp_path_factory.mktemp("registry")
    with registry(folder, AUTHORITY) as images:
        spec = spec_of(
            f"oci://{images.host}/rack7/proofs",
            ca=AUTHORITY.pem,
            login={"user": USER, "password": {"secret": "store_password"}},
        )
        yield Served(spec, folder / "storage", secrets={"store_password": PASSWORD})


@pytest.fixture(params=["bucket", "repository"])
def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Served:
    found: Served = request.getfixturevalue(request.param)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "first")
    # Each test has a prefix or a repository of its own.
    address = f"{found.spec.address}/{tmp_path.name.replace('_', '-').lower()}"
    spec = found.spec.model_copy(update={"address": address})
    return Served(spec, found.data, found.environ, found.secrets)


def test_another_machine_reads_the_same_proof(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = served.open()
    assert store.bring("dev") == []
    store.check_writable("dev")
    digest = keep(store)
    monkeypatch.chdir("../second")
    again = served.open()
    assert again.fetch("dev", 7, digest) == dump_evidence(EVIDENCE)
    assert latest_evidence("dev") == EVIDENCE
    with pytest.raises(WrongRunError, match=r"run 6 of dev is missing; the store has 7\."):
        again.fetch("dev", 6)
    with pytest.raises(WrongRunError, match="run 7 of other is missing; the store has no run of"):
        again.fetch("other", 7)


def test_several_who_prove_at_once_keep_all_runs(served: Served) -> None:
    store, signer = served.open(), open_signer(served.spec, {"evidence_key": KEY.secret})
    runs = [EVIDENCE.model_copy(update={"facts": {"who": str(each)}}) for each in range(6)]
    with ThreadPoolExecutor(6) as pool:
        kept = [pool.submit(served.open().keep, "dev", run, signer) for run in runs]
    assert [each.result() for each in kept] == [None] * 6
    names = [name for name in store.place.names("dev") if name.startswith("run-0007.")]
    assert len(names) == 6
    assert len({store.place.read("dev", name, "evidence.json") for name in names}) == 6


def test_a_store_without_the_evidence_has_no_run(served: Served) -> None:
    store = served.open()
    keep(store)
    (name,) = (each for each in store.place.names("dev") if each.startswith("run-"))
    later = name.replace("run-0007", "run-0008")
    store.place.write("dev", later, {"evidence.json.minisig": b""})
    with pytest.raises(WrongRunError, match="run 8"):
        store.fetch("dev", 8)


@pytest.mark.parametrize(
    ("changes", "environ", "words"),
    [
        ({"region": "us-east-1"}, {}, "the region is wrong|another region"),
        ({"address": "s3://other/rack7"}, {}, "the bucket does not exist"),
        ({}, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "the secret key is wrong"),
        ({}, {"AWS_ACCESS_KEY_ID": "nobody"}, "the access key is unknown"),
        ({"ca": Authority("another").pem}, {}, "its certificate is not trusted"),
    ],
)
def test_a_bucket_that_refuses_says_why(
    bucket: Served, changes: dict[str, object], environ: dict[str, str], words: str
) -> None:
    store = Served(bucket.spec, bucket.data, bucket.environ | environ).open(**changes)
    for call in _calls(store):
        with pytest.raises(StoreError, match=words) as raised:
            call()
        assert "\n  where  https://" in str(raised.value)
        assert "\n  fix    " in str(raised.value)
        assert raised.value.exit_code == 4


@pytest.mark.parametrize(
    ("changes", "password", "words"),
    [
        ({}, "wrong", "401 Unauthorized"),
        ({"ca": Authority("another").pem}, PASSWORD, "its certificate is not trusted"),
    ],
)
def test_a_registry_that_refuses_says_why(
    repository: Served, changes: dict[str, object], password: str, words: str
) -> None:
    secrets = {"store_password": password}
    store = Served(repository.spec, repository.data, secrets=secrets).open(**changes)
    for call in _calls(store):
        with pytest.raises(StoreError, match=words) as raised:
            call()
        assert "\n  where  https://" in str(raised.value)
        assert "evidence_store" in str(raised.value).partition("\n  fix    ")[2]


def test_a_registry_that_takes_bytes_but_no_manifest_is_seen_before_the_probes(
    repository: Served,
) -> None:
    store = repository.open(address=f"{repository.spec.address}/broken")
    folder = repository.data / "docker/registry/v2/repositories/rack7/proofs/broken"
    folder.mkdir(parents=True)
    (folder / "_manifests").write_text("a file in place of the folder")
    with pytest.raises(StoreError, match="500 Internal Server Error"):
        store.check_writable("dev")


def test_a_check_leaves_no_tag(repository: Served) -> None:
    store = repository.open(address=f"{repository.spec.address}/checked")
    for _ in range(2):
        store.check_writable("dev")
    assert store.place.names("dev") == []


def _calls(store: Store) -> tuple[Callable[[], object], ...]:
    return lambda: store.check_writable("dev"), lambda: store.fetch("dev", 7)


def test_many_runs_are_listed_page_by_page(bucket: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    store = bucket.open(address="s3://proofs/pages")
    for number in range(1, 6):
        name = f"run-{number:04d}.20260102T030405Z.0123456789abcdef"
        store.place.write("dev", name, {"evidence.json": b"x"})
    monkeypatch.setattr("components.artefacts.s3.PAGE", 2)
    assert [name[:8] for name in store.place.names("dev")] == [
        f"run-{number:04d}" for number in range(1, 6)
    ]
