"""Users and groups of a lab host, read from its own /etc."""

from __future__ import annotations

from pathlib import Path

from components.core.record import record


@record
class Account:
    """One line of /etc/passwd."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str


def load_accounts(root: Path) -> list[Account]:
    """All accounts of the host whose own folders lie below `root`."""
    rows = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    return [Account(r[0], int(r[2]), int(r[3]), r[5], r[6]) for r in rows if len(r) == 7]  # noqa: PLR2004 - passwd(5) has seven fields


def find_account(root: Path, name: str) -> Account | None:
    """The account with this name."""
    return next((a for a in load_accounts(root) if a.name == name), None)


def name_of_uid(root: Path, uid: int) -> str:
    """The name of a user id, or the number."""
    return next((a.name for a in load_accounts(root) if a.uid == uid), str(uid))


def groups_of(root: Path, account: Account) -> frozenset[str]:
    """Names of the groups that an account is in."""
    return frozenset(name for name, _ in _groups(root, account))


def group_ids(root: Path, account: Account) -> tuple[int, ...]:
    """Their numbers, as initgroups(3) gives them to a login."""
    return tuple(number for _, number in _groups(root, account))


def _groups(root: Path, account: Account) -> list[tuple[str, int]]:
    rows = [line.split(":") for line in (root / "etc/group").read_text().splitlines()]
    return [
        (row[0], int(row[2]))
        for row in rows
        if len(row) == 4  # noqa: PLR2004 - group(5) has four fields
        and (int(row[2]) == account.gid or account.name in row[3].split(","))
    ]
