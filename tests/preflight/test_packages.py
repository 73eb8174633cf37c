"""Package managers with the shipped script: rpm's answers are played, its lock is a real one.

The answers are those of rpm 4.16 and later (lab/sources.md#package-managers); apt and
dpkg are played by the lab's hosts (`tests/over_ssh/test_preflight.py`).
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from components.core.problem import Finding
from components.preflight.wants import HostWants
from tests.preflight.asking import ask

_NAMES = ("bash.x86_64", *("kernel-core.x86_64",) * 2, *("gpg-pubkey.(none)",) * 2)
NAMES = "".join(f"{name}\n" for name in _NAMES)
RPM = """#!/bin/sh
case $1 in
  --verifydb) cat "$RPM_SAYS" >&2; [ ! -s "$RPM_SAYS" ] ;;
  -qa) cat "$RPM_HAS" ;;
  --eval) echo "$RPM_DATABASE" ;;
  *) echo "rpm: $*: unknown option" >&2; exit 1 ;;
esac
"""


class RpmHost:
    """A host of Red Hat's kind."""

    def __init__(self, folder: Path) -> None:
        self.says, self.has, self.database = (folder / name for name in ("says", "has", "db"))
        self.says.write_text("")
        self.has.write_text(NAMES)
        self.database.mkdir()
        self.lock = self.database / ".rpm.lock"
        self.lock.write_text("")
        self.tools = folder / "bin"
        self.tools.mkdir()
        # That of this machine takes a second, and Red Hat's hosts have none.
        for name, text in (("rpm", RPM), *((name, "#!/bin/sh\n") for name in ("dnf", "apt-get"))):
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)

    def ask(self, *, installs: bool = True) -> dict[str, Finding]:
        told = {"RPM_SAYS": self.says, "RPM_HAS": self.has, "RPM_DATABASE": self.database}
        environ = {key: str(path) for key, path in told.items()}
        path = f"{self.tools}:{os.environ['PATH']}"
        found = ask(HostWants("gpu01", packages=installs), environ | {"PATH": path})
        return {each.rule: each for each in found}


@pytest.fixture
def rpm_host(tmp_path: Path) -> RpmHost:
    return RpmHost(tmp_path)


def test_several_kernels_and_keys_are_no_lack(rpm_host: RpmHost) -> None:
    assert rpm_host.ask() == {}


def test_a_transaction_that_was_cut_off_is_named_by_what_is_there_twice(rpm_host: RpmHost) -> None:
    rpm_host.has.write_text(f"{NAMES}openssl.x86_64\nglibc.x86_64\nopenssl.x86_64\n")
    found = rpm_host.ask()
    assert found["half-installed"].actual == "openssl.x86_64"
    assert "dnf remove --duplicates" in found["half-installed"].fix


def test_a_damaged_database_is_named_in_rpms_words(rpm_host: RpmHost) -> None:
    rpm_host.says.write_text("error: rpmdbNextIterator: skipping h#  12 blob size(8): BAD\n")
    found = rpm_host.ask()["package-db"]
    assert (found.severity, found.fix) == ("error", "rpm --rebuilddb")
    assert "blob size" in found.actual
    assert rpm_host.ask(installs=False) == {}  # nothing is installed there, so it is not asked


def test_a_transaction_under_way_is_named_by_its_process(rpm_host: RpmHost) -> None:
    with rpm_host.lock.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        found = rpm_host.ask()["package-lock"]
    assert found.actual.startswith(f"process {os.getpid()} (")
    assert "dnf-automatic" in found.fix
    assert "package-lock" not in rpm_host.ask()


def test_a_query_holds_no_lock_that_counts(rpm_host: RpmHost) -> None:
    with rpm_host.lock.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_SH)
        assert rpm_host.ask() == {}
