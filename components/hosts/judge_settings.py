"""What `up` would refuse on a host, found in the look that every preview makes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from components.core.key_values import HostState
from components.core.problem import Finding
from components.hosts.look import LOOK_PREFIX, parse_look
from components.hosts.plan import HostPlan

_NO_VALUE: Final = frozenset({"", "absent", "unsupported", "unknown", "hidden"})
_OFED: Final = frozenset({"doca_ofed", "mlnx_ofed", "other"})


def judge_settings(plan: HostPlan, seen: Mapping[str, str]) -> tuple[Finding, ...]:
    """What no step may change, and is otherwise than the file says."""
    wanted = plan.desired.values
    looks = (_cards, _managed, _drivers)
    return tuple(found for look in looks for found in look(plan.name, wanted, seen))


def refuse_settings(plans: Iterable[HostPlan], facts: Mapping[str, object]) -> tuple[str, ...]:
    """The same for an update, which must not start over it.

    Args:
        plans: The hosts.
        facts: Device name to what was seen of it; a host that was not read is left out.
    """
    return tuple(
        f"{found.cause}: {found.what}\n  where  {found.device}: {found.actual}; wanted:"
        f" {found.wanted}\n  fix    {found.fix}"
        for plan in plans
        if isinstance(seen := facts.get(plan.name), HostState)
        for found in judge_settings(plan, seen.values)
        if found.severity == "problem"
    )


def _cards(device: str, wanted: Mapping[str, str], seen: Mapping[str, str]) -> Iterator[Finding]:
    for key, want in wanted.items():
        if not key.startswith("nic."):
            continue
        pci, _, setting = key.removeprefix("nic.").rpartition(".")
        has = seen.get(key, "")
        if has == want or (has in _NO_VALUE and setting != "lldpad"):
            continue
        if setting == "netdev":
            what = f"the network device of the card at {pci} has another name than the file says."
            fix = "write the name that the host uses in hosts[].nics[].netdev"
            yield Finding(device, "netdev", what, has, want, fix)
        elif setting == "eswitch_now":
            what = f"the embedded switch of the card at {pci} is in another mode."
            fix = "say which mode you want: hosts[].nics[].sriov.eswitch"
            yield Finding(device, "eswitch", what, has, want, fix)
        elif setting == "lldpad" and has == "running":
            what = "lldpad runs, and would overwrite PFC and DCBX."
            fix = "systemctl disable --now lldpad.socket lldpad.service"
            yield Finding(device, "lldpad", what, has, "not running", fix)
        elif setting == "serial":
            what = f"another card is at {pci} than the file says."
            fix = "correct hosts[].nics[]: `railyard discover` reads address and serial"
            yield Finding(device, "serial", what, has, want, fix)


def _managed(device: str, wanted: Mapping[str, str], seen: Mapping[str, str]) -> Iterator[Finding]:
    """NetworkManager has a card: the update takes it, unless something that counts would go too."""
    for key in (key for key in wanted if key.endswith(".network_manager")):
        pci, has = key.split(".", 1)[1].rpartition(".")[0], seen.get(key, "")
        if has == "managed":
            what = "NetworkManager has rail cards: it runs DHCP there and removes other addresses."
            fix = "nothing: the update takes them from it, and their links stay up"
            yield Finding(device, "network-manager", what, pci, "unmanaged", fix, "warning")
        elif has.startswith("managed"):
            what = "NetworkManager sets up a rail card, and would not any more after the update."
            fix = (
                "if the host itself is reached over the card, give it another way first; then"
                " delete the card's profile (nmcli connection show), with the address in"
                " hosts[].nics[].address; or set host_defaults.manage.network_manager: false"
            )
            yield Finding(device, "network-manager-profile", what, f"{pci} {has}", "none", fix)


def _not_present(device: str, there: str, wanted: str) -> Finding:
    """A driver that the file expects on the host is another, too old, or does not run.

    Args:
        device: Which host.
        there: `<kind> <version>`, and a word for what is wrong of it, as the look answers.
        wanted: `<flavour>`, or `<flavour> <oldest version>`.
    """
    flaw = there.split()[2:]
    if flaw == ["without-modules"]:
        what = "the RDMA driver has no modules for the running kernel."
        fix = "build them for it (dkms autoinstall), or boot the kernel they were built for"
    elif flaw == ["not-loaded"]:
        what = "the RDMA driver is installed, and other modules are loaded."
        fix = "restart the host, or: /etc/init.d/openibd restart"
    elif flaw == ["too-old"]:
        what = "the RDMA driver is older than the file says."
        fix = "update it, or write the oldest version that the site runs in driver.at_least"
    else:
        what = "the RDMA driver that the file expects is not on the host."
        fix = (
            "install it, or let Railyard do so: host_defaults.driver with kind mlnx_ofed or"
            " doca_ofed and a source; {kind: inbox} is the kernel's own driver"
        )
    return Finding(device, "rdma-driver", what, there, wanted, fix)


def _drivers(device: str, wanted: Mapping[str, str], seen: Mapping[str, str]) -> Iterator[Finding]:
    kind, has = wanted.get("driver.kind", ""), seen.get("driver.kind", "")
    if kind and has in _OFED and has != kind:
        what = "another RDMA driver is installed than the file says."
        fix = "write the kind that is there in host_defaults.driver, or take it off first"
        yield Finding(device, "rdma-driver", what, has, kind, fix)
    present, there = wanted.get("driver.present", ""), seen.get("driver.present", "")
    if present and there and there != present:
        yield _not_present(device, there, present)
    for key, cause, what, fix in _VERSIONS:
        want, runs = wanted.get(key, ""), seen.get(key, "")
        if want and runs and runs not in {want, "unsupported"}:
            yield Finding(device, cause, what, runs, want, fix)


_VERSIONS: Final = (
    (
        "driver.gpu_host",
        "gpu-driver-version",
        "the GPU driver has another version than the file says.",
        "install that version, or correct host_defaults.gpu_driver_version",
    ),
    (
        "driver.gpu_modules",
        "gpu-modules",
        "the GPU kernel modules are of the other kind than the file needs.",
        "install nvidia-open, or set host_defaults.gpu_direct: peermem",
    ),
    (
        "driver.dma_buf",
        "dma-buf",
        "the kernel's RDMA stack has no DMA-BUF.",
        "boot Linux 5.12 or later, or set host_defaults.gpu_direct: peermem",
    ),
)


def judge_gpus(device: str, wanted: int, seen: Mapping[str, str]) -> tuple[Finding, ...]:
    """Whether the host has as many GPUs as the file says, counted in its PCI devices."""
    look = parse_look(
        f"{key}={value}" for key, value in seen.items() if key.startswith(LOOK_PREFIX)
    )
    if not look.seen or len(look.gpus) == wanted:
        return ()
    what = "the host has another number of GPUs than the file says."
    fix = "correct hosts[].gpus; where one is missing, look at its seat and power (dmesg)"
    return (Finding(device, "gpus", what, str(len(look.gpus)), str(wanted), fix),)
