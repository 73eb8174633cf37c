"""The store of evidence: what a machine reads back, and what it refuses, in a shared folder."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from components.acceptance.evidence import dump_evidence
from components.acceptance.report.archive import keep_evidence, last_accepted, latest_evidence
from components.acceptance.report.store import (
    SignatureError,
    Store,
    StoreError,
    WrongRunError,
    open_signer,
    parse_secret_key,
    verify,
)
from components.core.errors import RailyardError, UsageError
from components.core.limits import LOG_BYTES
from tests.acceptance.stores import EVIDENCE, KEY, OTHER, keep, opened, spec_of

PROVEN = Path(".railyard/dev/run-0007/evidence.json")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    (tmp_path / "shared").mkdir()
    monkeypatch.chdir(tmp_path / "first")
    return opened(spec_of(str(tmp_path / "shared")))


def _run(store: Store) -> Path:
    return next(Path(store.spec.address).glob("dev/run-*"))


def test_another_machine_reads_the_same_proof(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = keep(store)
    monkeypatch.chdir("../second")
    assert latest_evidence("dev") is None
    assert store.fetch("dev", 7, digest) == dump_evidence(EVIDENCE)
    assert latest_evidence("dev") == EVIDENCE
    assert PROVEN.with_name("evidence.json.minisig").is_file()


def test_the_runs_of_others_count_as_last_proofs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store)
    keep(store, EVIDENCE.model_copy(update={"run": 8, "finished_at": "2026-01-02T03:04:05+00:00"}))
    monkeypatch.chdir("../second")
    assert store.bring("dev") == []
    assert last_accepted("dev", 9) == EVIDENCE  # by its end, not by its number
    assert store.bring("dev") == []


def test_two_who_prove_at_once_keep_both_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = EVIDENCE.model_copy(update={"facts": {"who": "the other"}})
    first = keep(store)
    monkeypatch.chdir("../second")
    second = keep(store, other)
    assert store.fetch("dev", 7, first) == dump_evidence(EVIDENCE)
    assert PROVEN.read_text() == dump_evidence(EVIDENCE)
    assert store.fetch("dev", 7, second) == dump_evidence(other)
    for digest in (first, second, first, second):  # such as `railyard report` by turns
        store.fetch("dev", 7, digest)
        assert store.bring("dev") == []
    aside = Path(f".railyard/dev/run-0007-{first[:16]}/evidence.json")
    assert aside.read_text() == dump_evidence(EVIDENCE)


def test_a_missing_run_is_named_with_those_that_are_there(store: Store) -> None:
    keep(store)
    with pytest.raises(WrongRunError) as raised:
        store.fetch("dev", 5)
    assert str(raised.value) == (
        "evidence_store: run 5 of dev is missing; the store has 7.\n"
        f"  where  {store.spec.address}\n"
        "  fix    name one of these runs."
    )
    gone = r"run 7 of dev \(0000000000000000\) is missing; the store has 7\.\n.*\n.*accept dev"
    with pytest.raises(WrongRunError, match=gone):
        store.fetch("dev", 7, "0" * 64)


def _cut(run: Path) -> None:
    (run / "evidence.json").write_bytes((run / "evidence.json").read_bytes()[:100])


def _forge(run: Path) -> None:
    """Change a verdict, and rename the run to the new digest: only the signature knows."""
    text = (run / "evidence.json").read_text().replace('"lab"', '"real"')
    (run / "evidence.json").write_text(text)
    _rename(run)


def _rename(run: Path) -> None:
    import hashlib  # noqa: PLC0415 - only here

    digest = hashlib.sha256((run / "evidence.json").read_bytes()).hexdigest()
    run.rename(run.with_name(f"{run.name[:-16]}{digest[:16]}"))


def _renumber(run: Path) -> None:
    run.rename(run.with_name(run.name.replace("run-0007", "run-0008")))


def _unsign(run: Path) -> None:
    (run / "evidence.json.minisig").unlink()


def _scribble(run: Path) -> None:
    (run / "evidence.json.minisig").write_text("hello\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_cut, "run 7: its signature does not hold: the text was cut short or changed."),
        (_forge, "run 7: its signature does not hold: the text was cut short or changed."),
        (_renumber, "run 8: its signature is of run-0007."),
        (_unsign, "run 7 is cut short: a part is missing."),
        (_scribble, "run 7: its signature is not a signature of minisign."),
    ],
)
def test_a_run_that_is_not_what_it_says_proves_nothing(
    store: Store, change: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store)
    change(_run(store))
    number = 8 if change is _renumber else 7
    monkeypatch.chdir("../second")
    with pytest.raises(WrongRunError, match=re.escape(words)) as raised:
        store.fetch("dev", number)
    assert re.search(r"\n  where  \S+ dev/run-000[78]\.\S+\n  fix    ", str(raised.value))
    assert latest_evidence("dev") is None
    (why,) = store.bring("dev")
    assert words in why
    assert latest_evidence("dev") is None


def _pipe(part: Path) -> None:
    part.unlink()
    os.mkfifo(part)


def _swell(part: Path) -> None:
    os.truncate(part, LOG_BYTES + 1)


@pytest.mark.parametrize("change", [_pipe, _swell])
@pytest.mark.parametrize("part", ["evidence.json", "evidence.json.minisig"])
def test_a_part_that_may_not_end_is_not_read(
    store: Store, change: Callable[[Path], None], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store)
    path = _run(store) / part
    change(path)
    monkeypatch.chdir("../second")
    (why,) = store.bring("dev")
    assert why == (
        "evidence_store: it is not a regular file, or longer than 64 MiB.\n"
        f"  where  {path}\n  fix    find out who wrote it, and remove it."
    )
    with pytest.raises(WrongRunError, match="not a regular file"):
        store.fetch("dev", 7)


def test_an_untrusted_key_proves_nothing(store: Store) -> None:
    keep(store, key=OTHER)
    with pytest.raises(WrongRunError, match="is by the key 31726568746F6E61, which `trusted_keys`"):
        store.fetch("dev", 7)


def test_a_full_disk_leaves_no_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_evidence("dev", EVIDENCE)
    monkeypatch.setattr("os.fsync", _Full(after=2))  # this machine's signature, and the store's
    with pytest.raises(StoreError) as raised:
        store.keep("dev", EVIDENCE, open_signer(store.spec, {"evidence_key": KEY.secret}))
    assert str(raised.value) == (
        "evidence_store: No space left on device.\n"
        f"  where  {store.spec.address}\n"
        "  fix    free space there, mount the folder, or correct its rights."
    )
    assert raised.value.exit_code == 4
    assert [path.name for path in _run(store).iterdir()] == ["evidence.json.minisig"]
    with pytest.raises(WrongRunError, match="the store has no run of it"):
        store.fetch("dev", 7)
    assert PROVEN.is_file()


def test_a_full_disk_of_this_machine_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store)
    monkeypatch.chdir("../second")
    monkeypatch.setattr("os.fsync", _Full(after=1))
    with pytest.raises(RailyardError, match=r"evidence.json cannot be written: No space left") as e:
        store.fetch("dev", 7)
    assert f"where  {PROVEN.absolute()}" in str(e.value)
    assert latest_evidence("dev") is None


@dataclass
class _Full:
    """A disk that takes some files more: fsync(2) is where NFS says it."""

    after: int

    def __call__(self, descriptor: int) -> None:
        self.after -= 1
        if self.after < 0 <= descriptor:
            raise OSError(28, os.strerror(28))


def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.artefacts.web.TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        store = opened(spec_of("s3://proofs", endpoint=address), keys)
        with pytest.raises(StoreError) as raised:
            store.check_writable("dev")
    assert str(raised.value) == (
        "evidence_store: it cannot be reached: no answer in time.\n"
        f"  where  {address}/proofs/dev/check\n"
        "  fix    see that this machine reaches it: name, route, firewall, HTTPS_PROXY."
    )


@pytest.mark.parametrize("wrong", ["gone", "file", "loop"])
def test_a_folder_that_is_not_there_is_refused(store: Store, wrong: str) -> None:
    """It is not mounted: that it holds no run, or a folder made on this disk, would be untrue."""
    place = Path(store.spec.address)
    place.rmdir()
    if wrong == "file":
        place.write_text("")
    elif wrong == "loop":
        place.symlink_to(place)
    calls = (
        lambda: store.check_writable("dev"),
        lambda: store.runs("dev"),
        lambda: store.fetch("dev", 7),
        lambda: store.bring("dev"),
    )
    for call in calls:
        with pytest.raises(StoreError, match=f"where  {place}") as refused:
            call()
        assert "mount the folder" in str(refused.value)
    assert not place.is_dir()


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("", "the secret evidence_key is not a secret key of minisign"),
        ("c2VjcmV0", "is not a secret key of minisign"),
        (OTHER.secret, f"evidence_store.trusted_keys lacks {OTHER.public}"),
    ],
)
def test_a_wrong_signing_key_is_refused(store: Store, secret: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)) as raised:
        open_signer(store.spec, {"evidence_key": secret})
    assert "\n  fix    " in str(raised.value)
    with pytest.raises(UsageError, match="RAILYARD_SECRET_EVIDENCE_KEY"):
        open_signer(store.spec, {})


# Made by minisign 0.11: `minisign -G -W`, then `minisign -S -m f -t "hello there"` of the text hi.
MADE_KEY = """\
untrusted comment: minisign encrypted secret key
RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAi0VsKW7zfokr8cQ2daEKWZ5pYRT8Y0\
+VEgDbTxGeb+ADaamhAgS6MOJaB1p8pt+vq4V2vA3kizyLu+RQLRRbpH4BFxIP2gPYAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
"""
MADE_PUBLIC = "RWSLRWwpbvN+ieJaB1p8pt+vq4V2vA3kizyLu+RQLRRbpH4BFxIP2gPY"
MADE_SIGNATURE = """\
untrusted comment: signature from minisign secret key
RUSLRWwpbvN+iVCXpGSOZ0MGOB/jC9dpzNyVETZAfQuJQdnLdr4tditz55mB+1b1A4I8v78U8WjlQkCbnzcbP9MEWfWu8AxX0AE=
trusted comment: hello there
jtqtTO+RIR3kjV0Gu1zETdFp7/1IZrtdABmDMuD/1vId7TukJB3sfAjbiMHdBMeYYNDMuJU7KoLphiU90D5aCw==
"""


def test_files_of_the_real_tool_are_read() -> None:
    assert verify(b"hi", MADE_SIGNATURE, [KEY.public, MADE_PUBLIC]) == "hello there"
    signer = parse_secret_key(MADE_KEY)
    assert signer.public == MADE_PUBLIC
    assert signer.sign(b"hi", "hello there").splitlines()[1:] == MADE_SIGNATURE.splitlines()[1:]
    with pytest.raises(SignatureError, match="does not hold"):
        verify(b"ho", MADE_SIGNATURE, [MADE_PUBLIC])
    with pytest.raises(SignatureError, match="does not hold"):
        verify(b"hi", MADE_SIGNATURE.replace("hello", "hallo"), [MADE_PUBLIC])
    with pytest.raises(SignatureError, match="password"):
        parse_secret_key(MADE_KEY.replace("RWQAAEIy", "RWRTY0Iy"))
