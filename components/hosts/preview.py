"""The changes and refusals of an update on the hosts, as text for people. Pure.

Both come from the observed and the planned state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from components.core.difference import Effect
from components.core.key_values import HostState
from components.core.problem import Finding, on_device, refusal
from components.hosts import software
from components.hosts.host_plan import HostPlan
from components.hosts.keys.ask import find_row
from components.hosts.keys.table import effect_of
from components.hosts.look import LOOK_PREFIX, parse_look
from components.model.cluster import ClusterSpec

IN_SERVICE: Final = "pending.in_service"
"""The host's own answer: `yes` if pods or containers may run."""
_NOTICED: Final = {Effect.CLASS: "changes its class", Effect.TRAFFIC: "loses a moment"}
OWN_CARDS: Final = "correct its pci in hosts; `lspci -D -d 15b3:` on the host lists its cards"


def host_changes(plans: Iterable[HostPlan], facts: Mapping[str, object]) -> tuple[str, ...]:
    """The firmware settings to write to each observed host's cards, and when they are active."""
    found: list[str] = []
    for plan in plans:
        seen = facts.get(plan.name)
        if isinstance(seen, HostState) and (lines := _cards(plan, seen)):
            found.append("\n  ".join((f"{plan.name}: firmware of its cards", *lines)))
    return tuple(found)


def class_changes(plans: Iterable[HostPlan], facts: Mapping[str, object]) -> tuple[str, ...]:
    """The settings whose change moves running traffic to another class or interrupts it briefly.

    No rule refuses them: jobs go on, and existing connections keep their class. `facts` has the
    observed, or else the last applied, state; a host without jobs is left out.
    """
    found: list[str] = []
    for plan in plans:
        seen = facts.get(plan.name)
        if not isinstance(seen, HostState) or seen.values.get(IN_SERVICE) == "no":
            continue
        for effect, what in _NOTICED.items():
            if words := "; ".join(_moves(plan, seen, effect)):
                found.append(f"{plan.name}: running traffic {what}: {words}")
    return tuple(found)


def _moves(plan: HostPlan, seen: HostState, effect: Effect) -> Iterator[str]:
    """The changes with this effect: each setting once, with all of its cards."""
    alike: dict[str, list[str]] = {}
    for key, wanted in sorted(plan.desired.values.items()):
        now = seen.values.get(key, wanted)
        if now != wanted and effect_of(find_row(key)) is effect:
            place, _, setting = key.rpartition(".")
            alike.setdefault(f"{setting}: {now} -> {wanted}", []).append(place.replace(".", " ", 1))
    yield from (f"{text} ({', '.join(places)})" for text, places in alike.items())


def _cards(plan: HostPlan, seen: HostState) -> list[str]:
    pending = software.pending_firmware(seen, plan.desired)
    lines: list[str] = []
    for pci in dict.fromkeys(each.pci for each in pending):
        own = [each for each in pending if each.pci == pci]
        shown = [each for each in own if each.current != "hidden"]
        needs = software.NEEDS_WORDS[software.needs_of(seen, pci)]
        if coming := _list(each for each in shown if not each.set):
            lines.append(f"{pci}: {coming} is set for its next start; needs {needs}")
        if waiting := _list(each for each in shown if each.set):
            lines.append(f"{pci}: {waiting} is set and waits for {needs}")
        if hidden := ", ".join(each.parameter for each in own if each.current == "hidden"):
            lines.append(
                f"{pci}: hidden until ADVANCED_PCI_SETTINGS is active: {hidden}. This needs two "
                "card restarts: run `pulumi up` again after the first"
            )
    return lines


def _list(changes: Iterable[software.PendingBoot]) -> str:
    return ", ".join(f"{each.parameter} {each.current} -> {each.next}" for each in changes)


def hosts_refused(
    spec: ClusterSpec, plans: Iterable[HostPlan], facts: Mapping[str, object]
) -> tuple[Finding, ...]:
    """Why an observed card cannot get the wanted settings; asked before any change.

    A missing card is accepted on virtual machines: their hypervisors pass it through in the same
    update.
    """
    found: list[Finding] = []
    for plan in plans:
        seen, host = facts.get(plan.name), spec.host(plan.name)
        if not isinstance(seen, HostState) or host is None:
            continue
        found += _taken_uids(plan, seen)
        for port in (*host.nics, *host.hca_sriov):
            cards = _Card(plan, seen, port.pci).reasons(passed_through=bool(spec.hypervisors))
            place = f"{plan.name}, as observed"
            found += (refusal("hosts", what, place, fix, plan.name) for what, fix in cards)
    return tuple(found)


def _taken_uids(plan: HostPlan, seen: HostState) -> Iterator[Finding]:
    """A common user whose uid belongs to another user: useradd and usermod refuse it."""
    for key, uid in plan.desired.values.items():
        if key.startswith("user.") and (owner := seen.values.get(f"{key}_owner")):
            name = key.removeprefix("user.").removesuffix(".uid")
            host, fix = plan.name, f"name {owner} there, choose another uid, or leave user out"
            what = f"the uid {uid} on {host} belongs to {owner}, and the file wants it for {name}."
            place = f"host_defaults.user, and {host} as observed"
            yield refusal("hosts", what, place, f"{fix}: none is made then", host)


@dataclass(frozen=True, slots=True)
class _Card:
    plan: HostPlan
    seen: HostState
    pci: str

    def both(self, setting: str) -> tuple[str, str]:
        """The wanted and the observed value."""
        key = f"nic.{self.pci}.{setting}"
        return self.plan.desired.values.get(key, ""), self.seen.values.get(key, "")

    def reasons(self, *, passed_through: bool) -> Iterator[tuple[str, str]]:
        """Each fault and its fix; another card has only that one."""
        host, pci = self.plan.name, self.pci
        model, there = self.both("model")
        if "absent" in {there, self.both("vfs")[1]}:
            if not passed_through:
                yield f"{host} lacks the PCI device {pci}.", OWN_CARDS
        elif there == "unknown":
            what = f"Railyard does not know the card at {pci} of {host}; the file says {model}."
            yield what, OWN_CARDS
        elif there and there not in software.NOT_THERE and there != model:
            what = f"the card at {pci} of {host} is a {there}, and the file says {model}."
            yield what, "correct hosts[].nics[].model, or the PCI address"
        else:
            yield from self.firmware(model)

    def firmware(self, model: str) -> Iterator[tuple[str, str]]:
        """An old firmware, and one that offers too few VFs."""
        host, pci = self.plan.name, self.pci
        floor, runs = self.both("fw_floor")
        if floor and runs and runs != floor and runs not in software.NOT_THERE:
            fix = (
                "update it (mlxfwmanager, or flint with the card's image) and reboot; or lower "
                "firmware.min_versions"
            )
            what = f"the firmware of {pci} ({model}) of {host} is {runs}"
            yield f"{what}, and {floor} or later is wanted.", fix
        managed, wanted = self.both("fw_num_of_vfs")[0], self.both("vfs")[0]
        offered = self.both("fw_vfs_offered")[1]
        if managed or not (wanted.isdigit() and offered.isdigit()) or int(wanted) <= int(offered):
            return
        fix = (
            "set firmware.manage to true: then Railyard sets SRIOV_EN and NUM_OF_VFS; or ask for "
            "fewer VFs; if it offers 0, switch on SR-IOV and the IOMMU in the BIOS"
        )
        yield f"{host} {pci} is asked for {wanted} VFs, and its firmware offers {offered}.", fix


_NO_VALUE: Final = frozenset({"", "absent", "unsupported", "unknown", "hidden"})
_OFED: Final = frozenset({"doca_ofed", "mlnx_ofed", "other"})


def judge_settings(plan: HostPlan, seen: Mapping[str, str]) -> tuple[Finding, ...]:
    """Settings that no step may change, and that differ from the file."""
    wanted = plan.desired.values
    looks = (_refused_cards, _managed, _drivers)
    return tuple(found for look in looks for found in look(plan.name, wanted, seen))


_CARD_FAULTS: Final = {
    "netdev": ("netdev",
        "the network device of the card at {} has another name than the file says.",
        "write the name that the host uses in hosts[].nics[].netdev"),
    "eswitch_now": ("eswitch", "the embedded switch of the card at {} is in another mode.",
        "say which mode you want: hosts[].nics[].sriov.eswitch"),
    "lldpad": ("lldpad", "lldpad runs, and would overwrite PFC and DCBX.",
        "systemctl disable --now lldpad.socket lldpad.service"),
    "serial": ("serial", "another card is at {} than the file says.",
        "correct hosts[].nics[]: `railyard discover` reads address and serial"),
}  # fmt: skip


def _refused_cards(
    device: str, wanted: Mapping[str, str], seen: Mapping[str, str]
) -> Iterator[Finding]:
    for key, want in wanted.items():
        pci, _, setting = key.removeprefix("nic.").rpartition(".")
        has, runs = seen.get(key, ""), setting == "lldpad"
        differs = has == "running" if runs else has != want and has not in _NO_VALUE
        if key.startswith("nic.") and setting in _CARD_FAULTS and differs:
            rule, what, fix = _CARD_FAULTS[setting]
            right = "not running" if runs else want
            yield on_device(device, rule, what.format(pci), has, right, fix)


def _managed(device: str, wanted: Mapping[str, str], seen: Mapping[str, str]) -> Iterator[Finding]:
    """NetworkManager has a card: the update takes it, unless that would remove a needed setting."""
    for key in (key for key in wanted if key.endswith(".network_manager")):
        pci, has = key.split(".", 1)[1].rpartition(".")[0], seen.get(key, "")
        if has == "managed":
            what = "NetworkManager has rail cards: it runs DHCP there and removes other addresses."
            fix = "nothing: the update takes them from it, and their links stay up"
            yield on_device(device, "network-manager", what, pci, "unmanaged", fix).rated("warning")
        elif has.startswith("managed"):
            what = "NetworkManager sets up a rail card, and would not any more after the update."
            fix = (
                "if the host itself is reached over the card, give it another way first; then"
                " delete the card's profile (nmcli connection show), with the address in"
                " hosts[].nics[].address; or set host_defaults.manage.network_manager: false"
            )
            yield on_device(device, "network-manager-profile", what, f"{pci} {has}", "none", fix)


_DRIVER_FLAWS: Final = {
    "without-modules": ("the RDMA driver lacks modules for the running kernel.",
        "build them for it (dkms autoinstall), or boot the kernel they were built for"),
    "not-loaded": ("the RDMA driver is installed, and other modules are loaded.",
        "restart the host, or: /etc/init.d/openibd restart"),
    "too-old": ("the RDMA driver is older than the file says.",
        "update it, or write the oldest version that the site runs in driver.at_least"),
    "": ("the RDMA driver that the file expects is not on the host.",
        ("install it, or let Railyard do so: host_defaults.driver with kind mlnx_ofed or"
         " doca_ofed and a source; {kind: inbox} is the kernel's own driver")),
}  # fmt: skip
"""By the last word of the look's `<kind> <version> <flaw>`."""


def _drivers(device: str, wanted: Mapping[str, str], seen: Mapping[str, str]) -> Iterator[Finding]:
    kind, has = wanted.get("driver.kind", ""), seen.get("driver.kind", "")
    if kind and has in _OFED and has != kind:
        what = "another RDMA driver is installed than the file says."
        fix = "write the installed kind into host_defaults.driver, or uninstall it first"
        yield on_device(device, "rdma-driver", what, has, kind, fix)
    present, there = wanted.get("driver.present", ""), seen.get("driver.present", "")
    if present and there and there != present:
        flaw = " ".join(there.split()[2:])
        what, fix = _DRIVER_FLAWS.get(flaw, _DRIVER_FLAWS[""])
        yield on_device(device, "rdma-driver", what, there, present, fix)
    for key, cause, what, fix in _VERSIONS:
        want, runs = wanted.get(key, ""), seen.get(key, "")
        if want and runs and runs not in {want, "unsupported"}:
            yield on_device(device, cause, what, runs, want, fix)


_VERSIONS: Final = (
    ("driver.gpu_host", "gpu-driver-version",
        "the GPU driver has another version than the file says.",
        "install that version, or correct host_defaults.gpu_driver_version"),
    ("driver.gpu_modules", "gpu-modules",
        "the GPU kernel modules are of the other kind than the file needs.",
        "install nvidia-open, or set host_defaults.gpu_direct: peermem"),
    ("driver.dma_buf", "dma-buf", "the kernel's RDMA stack lacks DMA-BUF.",
        "boot Linux 5.12 or later, or set host_defaults.gpu_direct: peermem"),
)  # fmt: skip


def judge_gpus(device: str, wanted: int, seen: Mapping[str, str]) -> tuple[Finding, ...]:
    """Whether the host has as many GPUs as the file says, by its PCI devices."""
    look = parse_look(
        f"{key}={value}" for key, value in seen.items() if key.startswith(LOOK_PREFIX)
    )
    if not look.seen or len(look.gpus) == wanted:
        return ()
    what = "the host has another number of GPUs than the file says."
    fix = "correct hosts[].gpus; if a GPU is missing, check its seat and power (dmesg)"
    return (on_device(device, "gpus", what, str(len(look.gpus)), str(wanted), fix),)
