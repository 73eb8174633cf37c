"""What a real ESXi host lacks is absent in the lab: held against a table with sources."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from lab.hosts.tools.call import ToolResult
from lab.hypervisors.config import EsxiVmConfig
from lab.hypervisors.esxi.faults import cause_fault
from lab.hypervisors.esxi.server import EsxiHost
from lab.keys import KeyPair, client_key, host_key
from tests.granted import Row, rows_of
from tests.lab_hypervisors.conftest import ADDRESS, CONFIG, GPU, NIC, PORT, Bench

SECOND = EsxiVmConfig("vm02", 262144, GPU, NIC, guest="vm02", powered_on=False)
TWO = dataclasses.replace(CONFIG, vms=(*CONFIG.vms, SECOND))
ED25519, ECDSA = host_key("any", "ed25519"), client_key("esxi-test")
BOTH = dataclasses.replace(
    CONFIG, authorized_key=f"{ED25519.public_openssh}\n{ECDSA.public_openssh}"
)
"""A host on which somebody has left a key of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Row):
    """One row; the head of the table says what each field is."""

    ask: str
    says: str
    lacks: tuple[str, ...]
    has: tuple[str, ...]
    first: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    like: str = ""
    over: str = "tools"


ROWS = rows_of(Path(__file__).with_name("granted.yaml"), Granted)
BY_TOOL = [row for row in ROWS if row.over == "tools"]
BY_SSH = [row for row in ROWS if row.over == "ssh"]


def do(bench: Bench, line: str) -> ToolResult:
    """Run a line of the table."""
    verb, _, rest = line.partition(" ")
    if verb == "set":
        bench.set_key(*rest.split(" ", 1))
    elif verb == "fault":
        asyncio.run(cause_fault(bench.machine, rest.split()))
    elif verb == "file":
        there = rest in bench.vmx().read_text().splitlines()
        return ToolResult(0 if there else 1, "" if there else "no such line")
    else:
        return bench.ask(line)
    return ToolResult()


def prepared(folder: Path, release: str, lines: tuple[str, ...]) -> Bench:
    """A host of that release on which these lines went well."""
    bench = Bench(folder, release, TWO)
    for line in lines:
        done = do(bench, line)
        assert done.rc == 0, (line, done)
    return bench


@pytest.mark.parametrize("row", BY_TOOL, ids=lambda row: row.thing)
def test_a_thing_is_there_only_with_what_brings_it(tmp_path: Path, row: Granted) -> None:
    for release in row.lacks:
        bench = prepared(tmp_path / f"lacks-{release}", release, row.first)
        done = do(bench, row.ask)
        assert done.rc != 0, f"{release} is kinder than a real host: {done.out}"
        assert row.says in done.out + done.err
    for release in row.has:
        bench = prepared(tmp_path / f"has-{release}", release, (*row.first, *row.given))
        done = do(bench, row.like or row.ask)
        assert done.rc == 0, (release, done)


async def enter(key: KeyPair, script: str) -> ToolResult:
    """Log in with a key and run a line."""
    pinned = asyncssh.import_public_key(host_key(CONFIG.host_key_seed, "ecdsa").public_openssh)
    try:
        async with asyncssh.connect(
            *(ADDRESS, PORT),
            username="root",
            client_keys=[asyncssh.import_private_key(key.private_openssh)],
            known_hosts=([pinned], [], []),
            config=None,
        ) as connection:
            done = await connection.run(script)
    except asyncssh.PermissionDenied as error:
        return ToolResult(255, err=f"Permission denied: {error.reason}")
    return ToolResult(done.exit_status or 0, str(done.stdout), str(done.stderr))


async def ask_for_key(algorithm: str) -> ToolResult:
    """Ask the host for its key of one kind, as `ssh-keyscan -t` does."""
    try:
        found = await asyncssh.get_server_host_key(
            ADDRESS, PORT, config=None, server_host_key_algs=[algorithm]
        )
    except asyncssh.KeyExchangeFailed as error:
        return ToolResult(1, err=f"no host key: {error.reason}")
    return ToolResult(0 if found and found.get_algorithm() == algorithm else 1)


async def do_over_ssh(host: EsxiHost, line: str) -> ToolResult:
    """Run a line of the table on a host that answers."""
    verb, *words = line.split()
    if verb == "fault":
        await host.fault(words)
        return ToolResult()
    if verb == "reboot":
        await host.reboot()
        return ToolResult()
    if line.startswith("host key "):
        return await ask_for_key(words[-1])
    if verb == "login":
        return await enter(ED25519 if words == ["ssh-ed25519"] else ECDSA, "true")
    return await enter(ECDSA, line)


@pytest.mark.lab
@pytest.mark.parametrize("row", BY_SSH, ids=lambda row: row.thing)
def test_a_thing_is_there_over_ssh_only_with_what_brings_it(tmp_path: Path, row: Granted) -> None:
    async def scenario() -> None:
        host = EsxiHost(BOTH, tmp_path)
        await host.start()
        try:
            for line in row.first:
                assert (await do_over_ssh(host, line)).rc == 0, line
            refused = await do_over_ssh(host, row.ask)
            assert refused.rc != 0, f"kinder than a real host: {refused.out}"
            assert row.says in refused.out + refused.err
            for line in row.given:
                assert (await do_over_ssh(host, line)).rc == 0, line
            taken = await do_over_ssh(host, row.like or row.ask)
            assert taken.rc == 0, taken
        finally:
            await host.stop()

    asyncio.run(scenario())
