"""The emulated ESXi host over real SSH: its shell, its files, its reboot, its refusals."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from lab.hypervisors.esxi.machine import GuestHooks
from lab.hypervisors.esxi.server import BOOT_S, LAB_SECONDS_PER_SECOND, NO_HOOKS, EsxiHost
from lab.keys import client_key, host_key
from tests.lab_hypervisors.conftest import ADDRESS, CONFIG, PORT

pytestmark = pytest.mark.lab
VMX = "/vmfs/volumes/datastore1/vm01/vm01.vmx"
DEADLINE_S = 20


@asynccontextmanager
async def connected() -> AsyncGenerator[asyncssh.SSHClientConnection]:
    public = asyncssh.import_public_key(host_key(CONFIG.host_key_seed, "ecdsa").public_openssh)
    async with asyncssh.connect(
        ADDRESS,
        PORT,
        username="root",
        client_keys=[asyncssh.import_private_key(client_key("esxi-test").private_openssh)],
        known_hosts=([public], [], []),
        config=None,
        login_timeout=DEADLINE_S,
    ) as connection:
        yield connection


async def sh(script: str, stdin: str = "") -> tuple[int, str, str]:
    async with asyncio.timeout(DEADLINE_S), connected() as connection:
        done = await connection.run(script, input=stdin)
        return done.exit_status or 0, str(done.stdout), str(done.stderr)


async def out(script: str, stdin: str = "") -> str:
    status, text, errors = await sh(script, stdin)
    assert status == 0, errors
    return text


@asynccontextmanager
async def running(folder: Path, hooks: GuestHooks = NO_HOOKS) -> AsyncGenerator[EsxiHost]:
    host = EsxiHost(CONFIG, folder, hooks)
    await host.start()
    try:
        yield host
    finally:
        await host.stop()


def test_the_shell_has_only_what_esxi_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path):
            for name in ("bash", "tr", "python", "python3", "sudo", "systemctl", "flock", "gawk",
                         "perl", "curl", "mount", "nsenter", "dash"):  # fmt: skip
                status, _, errors = await sh(f"{name} --version")
                assert (status, f"{name}: not found" in errors) == (127, True), name
                assert (await sh(f"type {name}"))[0] == 127
            status, _, errors = await sh("command -v ls")
            assert (status, "command: not found" in errors) == (127, True)
            assert await out("type ls; cd /tmp && continue; export A=1; echo $A $((0x1f))") == (
                "ls is /bin/ls\n1 31\n"
            )
            assert (await sh("awk 'BEGIN { print strtonum(\"0x10\") }'"))[0] != 0
            assert (await sh("ls /proc /sys /usr/bin"))[0] != 0
            assert await out("cat", "a\nb\n") == "a\nb\n"
            assert await out("hostname; kill -0 $$ && echo $PATH") == "esx01\n/bin:/sbin\n"

    asyncio.run(scenario())


def test_root_inside_cannot_write_the_outer_machine(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path):
            for target in ("/bin/x", "/usr/lib/x", "/x/y", str(Path(__file__).parent / "x")):
                assert (await sh(f": > {target}"))[0] != 0, target

    asyncio.run(scenario())


def test_tools_answer_in_the_shell(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as host:
            text = await out("vmware -v; esxcli system uuid get; vim-cmd vmsvc/getallvms")
            assert text.splitlines() == [
                "VMware ESXi 7.0.2 build-17630552",
                host.machine.stored.uuid,
                "Vmid   Name   File                         Guest OS        Version   Annotation",
                "1      vm01   [datastore1] vm01/vm01.vmx   ubuntu64Guest   vmx-19",
            ]
            assert 'displayName = "vm01"' in await out(f"cat {VMX}")
            assert (await sh("esxcli a b; lspci"))[0] == 1
            status = await sh("timeout 1 esxcli system maintenanceMode set -e true")
            assert status[0] == 143
            assert host.unmodelled == ("esxcli a b", "lspci")

    asyncio.run(scenario())


async def open_read(pipe: Path) -> int:
    """Open a FIFO for writing as soon as a process reads it; that one waits until it is closed."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
            await asyncio.sleep(0.02)


async def reboot_by_command(host: EsxiHost) -> None:
    await out("vim-cmd vmsvc/power.off 1 && esxcli system maintenanceMode set -e true -t 0")
    asked = time.time()
    await out('esxcli system shutdown reboot -d 10 -r "settings"')
    async with asyncio.timeout(DEADLINE_S):
        await host.finish_reboot()
    # How long an answer takes is the machine's: the boot itself tells that the delay was kept.
    booted = host.machine.stored.boot_time_s
    assert booted - asked >= 10 * LAB_SECONDS_PER_SECOND + BOOT_S
    assert int(await out("esxcli system stats uptime get")) <= (time.time() - booted) * 1e6


def test_a_reboot_applies_what_was_configured_and_forgets_the_ram_disk(tmp_path: Path) -> None:
    down: list[tuple[str, ...]] = []

    async def while_down(names: tuple[str, ...]) -> None:
        with pytest.raises(ConnectionRefusedError):
            await sh("true")
        down.append(names)

    async def scenario() -> None:
        async with running(tmp_path, GuestHooks(on_host_reboot=while_down)) as host:
            await out(
                "cd /vmfs/volumes/datastore1; echo kept >kept; echo lost >/etc/lost; : >/tmp/x"
            )
            pipe = host.machine.volume("datastore1") / "pipe"
            os.mkfifo(pipe)
            await out("(read line </vmfs/volumes/datastore1/pipe) >/dev/null 2>&1 &")
            writer = await open_read(pipe)
            await out("esxcli system settings kernel set -s atsSupport -v TRUE")
            await reboot_by_command(host)
            assert down == [("vm01",)]
            text = await out("esxcli system settings kernel list -o atsSupport | tail -n 1")
            assert text.split()[:4] == ["atsSupport", "Bool", "TRUE", "TRUE"]
            assert await out("cat /vmfs/volumes/datastore1/kept") == "kept\n"
            assert await out("ls /tmp; ls /etc | grep lost || echo none") == "none\n"
            assert await out("esxcli system maintenanceMode get") == "Enabled\n"
            assert "Powered off" in await out("vim-cmd vmsvc/power.getstate 1")
            with pytest.raises(OSError, match="No such device or address"):  # no reader is left
                os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.close(writer)

    asyncio.run(scenario())


def test_lockdown_and_a_stopped_ssh_service(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as host:
            await host.fault(["lockdown", "on"])
            with pytest.raises(asyncssh.PermissionDenied):
                await sh("true")
            await host.fault(["lockdown", "off"])
            await host.fault(["ssh-refused", "on"])
            with pytest.raises(ConnectionRefusedError):
                await sh("true")
            await host.fault(["ssh-refused", "off"])
            assert await sh("true") == (0, "", "")

    asyncio.run(scenario())


def test_another_key_is_refused_and_a_lost_key_file_locks_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path):
            await out("echo > /etc/ssh/keys-root/authorized_keys")
            with pytest.raises(asyncssh.PermissionDenied):
                await sh("true")

    asyncio.run(scenario())


def test_a_snapshot_shows_every_change_and_is_the_same_after_its_undo(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as host:
            before = host.snapshot()
            changes = (
                ("kernel atsSupport TRUE", "kernel atsSupport FALSE"),
                ("vmx vm01 pciPassthru.allowP2P TRUE", "vmx vm01 pciPassthru.allowP2P unset"),
                ("passthrough 0000:86:00.0 on", "passthrough 0000:86:00.0 off"),
                ("vm-power vm01 off", "vm-power vm01 on"),
                ("lockdown on", "lockdown off"),
            )
            for done, undone in changes:
                await host.fault(done.split())
                assert host.snapshot() != before, done
                await host.fault(undone.split())
                assert host.snapshot() == before, done
            await out("echo x > /vmfs/volumes/datastore1/new")
            assert host.snapshot() != before

    asyncio.run(scenario())


def test_the_state_survives_a_restart_of_the_lab(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as host:
            await out("vim-cmd vmsvc/power.off 1; echo a > /tmp/a")
            before = host.snapshot()
        async with running(tmp_path) as host:
            assert host.snapshot() == before
            assert await out("cat /tmp/a") == "a\n"
            assert int(await out("esxcli system stats uptime get")) > BOOT_S

    asyncio.run(scenario())


def test_a_lab_that_ends_while_a_host_is_down_boots_it_at_its_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as host:
            await out("esxcli system settings kernel set -s atsSupport -v TRUE")
            await host.machine.lose_power()
        async with running(tmp_path) as host:
            assert host.machine.stored.kernel["atsSupport"].runtime == "TRUE"
            assert host.machine.running() == []

    asyncio.run(scenario())


def test_a_client_that_goes_away_does_not_stop_a_power_change(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(_name: str, _on: bool) -> None:  # noqa: FBT001 - the shape of the hook
        await go_on.wait()

    async def scenario() -> None:
        async with running(tmp_path, GuestHooks(on_power=slow)) as host:
            assert (await sh("timeout 1 vim-cmd vmsvc/power.off 1"))[0] == 143
            assert host.machine.running() == ["vm01"]
            go_on.set()
            await host.machine.settle()
            assert host.machine.running() == []

    asyncio.run(scenario())
