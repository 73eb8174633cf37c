"""What is wanted of the cards' firmware, what waits for a start, and what a preview says of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.catalogue.cards import CARDS, CardName
from components.core.key_values import HostState
from components.hosts.host_plan import HostPlan, plan_hosts
from components.hosts.preview import host_changes, hosts_refused
from components.hosts.software import pending_firmware
from components.model.cards import Firmware, FirmwareFloor, HcaPf, version_number
from components.model.cluster import ClusterSpec
from tests.golden.site import changed_spec, load_example
from tests.update.judged import written

PCI = "0000:05:00.0"
CARD = f"nic.{PCI}"
PARAMETERS = {
    "ats": "ATS_ENABLED",
    "fw_sriov_en": "SRIOV_EN",
    "fw_num_of_vfs": "NUM_OF_VFS",
    "fw_link_type_p1": "LINK_TYPE_P1",
    "fw_link_type_p2": "LINK_TYPE_P2",
    "fw_advanced_pci_settings": "ADVANCED_PCI_SETTINGS",
    "fw_pci_wr_ordering": "PCI_WR_ORDERING",
}
"""What the host calls a setting, to what mlxconfig calls it."""


def site(firmware: Firmware, **nic: object) -> ClusterSpec:
    """The DeepOps site with that firmware asked for, and its cards changed."""
    spec = load_example("dgx-roce")
    defaults = spec.host_defaults.model_copy(update={"firmware": firmware})
    hosts = tuple(
        host.model_copy(update={"nics": tuple(n.model_copy(update=nic) for n in host.nics)})
        for host in spec.hosts
    )
    return changed_spec(spec, host_defaults=defaults, hosts=hosts)


def gpu01(spec: ClusterSpec) -> HostPlan:
    return next(plan for plan in plan_hosts(spec) if plan.name == "gpu01")


def firmware_of(spec: ClusterSpec, pci: str = PCI) -> dict[str, str]:
    """The firmware settings that gpu01's card shall have."""
    head = f"nic.{pci}."
    return {
        key.removeprefix(head): value
        for key, value in gpu01(spec).desired.values.items()
        if key.startswith((f"{head}fw_", f"{head}ats"))
    }


def test_nothing_is_set_that_is_not_asked_for() -> None:
    assert firmware_of(site(Firmware())) == {}


def test_managed_firmware_follows_the_vfs_and_the_transport() -> None:
    assert firmware_of(site(Firmware(manage=True), vfs=32)) == {
        "fw_sriov_en": "on",
        "fw_num_of_vfs": "32",
        "fw_link_type_p1": "eth",
    }
    assert firmware_of(site(Firmware(manage=True, num_of_vfs=64)))["fw_num_of_vfs"] == "64"
    assert "fw_sriov_en" not in firmware_of(site(Firmware(manage=True), vfs=0))


def test_an_ethernet_card_has_no_link_type() -> None:
    assert "fw_link_type_p1" not in firmware_of(site(Firmware(manage=True), model="ConnectX-6 Dx"))


def test_two_ports_share_what_their_card_offers() -> None:
    spec = site(Firmware(manage=True))
    first, second = spec.hosts[1].nics
    ports = (
        first.model_copy(update={"vfs": 4}),
        second.model_copy(update={"pci": "0000:05:00.1", "vfs": 20}),
    )
    host = spec.hosts[1].model_copy(update={"nics": ports})
    both = changed_spec(spec, hosts=(spec.hosts[0], host, spec.hosts[2]))
    assert firmware_of(both)["fw_num_of_vfs"] == "20"
    assert firmware_of(both, "0000:05:00.1")["fw_num_of_vfs"] == "20"
    assert firmware_of(both, "0000:05:00.1")["fw_link_type_p2"] == "eth"


def infiniband(firmware: Firmware, *ports: HcaPf) -> HostPlan:
    """The first worker of the InfiniBand site, with that firmware and these ports."""
    spec = load_example("quantum-ib")
    defaults = spec.host_defaults.model_copy(update={"firmware": firmware})
    host = spec.hosts[1].model_copy(update={"hca_sriov": ports})
    return gpu01(changed_spec(spec, host_defaults=defaults, hosts=(spec.hosts[0], host)))


def test_infiniband_ports_with_an_address_have_firmware_settings() -> None:
    ports = (HcaPf(pci="0000:18:00.0", vfs=4), HcaPf(pci="0000:18:00.1", vfs=16))
    plan = infiniband(Firmware(manage=True, relaxed_ordering=True), *ports)
    keys = {key: value for key, value in plan.desired.values.items() if ".fw_" in key}
    both = {
        "fw_sriov_en": "on",
        "fw_num_of_vfs": "16",
        "fw_advanced_pci_settings": "on",
        "fw_pci_wr_ordering": "force_relax",
    }
    assert keys == {f"nic.{pf.pci}.{key}": value for pf in ports for key, value in both.items()} | {
        "nic.0000:18:00.0.fw_link_type_p1": "ib",
        "nic.0000:18:00.1.fw_link_type_p2": "ib",
    }
    assert plan.converge.deadline_s > infiniband(Firmware(), *ports).converge.deadline_s


def test_an_infiniband_port_without_vfs_has_its_link_type_alone() -> None:
    plan = infiniband(Firmware(manage=True), HcaPf(pci="0000:18:00.0", vfs=0))
    keys = {key: value for key, value in plan.desired.values.items() if ".fw_" in key}
    assert keys == {"nic.0000:18:00.0.fw_link_type_p1": "ib"}


def test_a_card_of_four_ports_has_no_link_type() -> None:
    third = firmware_of(
        site(Firmware(manage=True), model="ConnectX-7", pci=f"{PCI[:-1]}2"), f"{PCI[:-1]}2"
    )
    assert third == {"fw_sriov_en": "on", "fw_num_of_vfs": "8"}


def test_relaxed_ordering_brings_what_shows_it() -> None:
    assert firmware_of(site(Firmware(relaxed_ordering=True))) == {
        "fw_advanced_pci_settings": "on",
        "fw_pci_wr_ordering": "force_relax",
    }


def test_the_oldest_release_is_the_files_or_the_tables() -> None:
    own = FirmwareFloor(model="ConnectX-5", version="16.28.4000")
    assert firmware_of(site(Firmware(min_versions=(own,)))) == {"fw_floor": "16.28.4000"}
    asked = firmware_of(site(Firmware(ats=True), model="BlueField-3", speed_gbit_s=200))
    assert asked["fw_floor"] == CARDS["BlueField-3"].firmware_floor
    assert "fw_floor" not in firmware_of(site(Firmware(), model="BlueField-3", speed_gbit_s=200))
    old = FirmwareFloor(model="BlueField-3", version="32.30.1000")
    low = Firmware(ats=True, min_versions=(old,))  # does not lower what Railyard needs
    assert firmware_of(site(low, model="BlueField-3", speed_gbit_s=200)) == asked


@pytest.mark.parametrize("name", list(CARDS))
def test_a_card_of_the_table_is_whole(name: CardName) -> None:
    card = CARDS[name]
    floor = card.firmware_floor
    assert floor is None or version_number(floor)[0] == card.firmware_family


def seen(plan: HostPlan, **other: str) -> HostState:
    """What a host answers that is as planned, but for some settings of its first card."""
    current = {
        f"{key}_current": value
        for key, value in plan.desired.values.items()
        if key.rpartition(".")[2] in PARAMETERS
    }
    changed = {f"{CARD}.{key}": value for key, value in other.items()}
    return HostState({**plan.desired.values, **current, **changed})


def test_a_card_that_runs_as_wanted_waits_for_nothing() -> None:
    plan = gpu01(site(Firmware(manage=True, ats=True, relaxed_ordering=True)))
    assert pending_firmware(seen(plan), plan.desired) == ()
    assert host_changes((plan,), {"gpu01": seen(plan)}) == ()
    assert host_changes((plan,), {}) == ()
    assert host_changes((plan,), {"gpu01": object()}) == ()


def test_a_preview_tells_what_is_set_what_waits_and_what_is_hidden() -> None:
    plan = gpu01(site(Firmware(manage=True, relaxed_ordering=True), vfs=32))
    facts = seen(
        plan,
        fw_num_of_vfs="16", fw_num_of_vfs_current="16", fw_sriov_en_current="off",
        fw_advanced_pci_settings="off", fw_advanced_pci_settings_current="off",
        fw_pci_wr_ordering="hidden", fw_pci_wr_ordering_current="hidden",
    )  # fmt: skip
    text = host_changes((plan,), {"gpu01": facts})[0]
    coming = "ADVANCED_PCI_SETTINGS off -> on, NUM_OF_VFS 16 -> 32 is set for its next start"
    assert text.splitlines()[:3] == [
        "gpu01: firmware of its cards",
        f"  {PCI}: {coming}; needs a reboot",
        f"  {PCI}: SRIOV_EN off -> on is set and waits for a reboot",
    ]
    assert (
        f"{PCI}: hidden until ADVANCED_PCI_SETTINGS is active: PCI_WR_ORDERING."
        in text.splitlines()[3]
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"fw_needs": "power_cycle"}, "a power cycle (a warm reboot does not load it)"),
        ({"fw_needs": "nothing", "fw_loads": "mlxfwreset"}, "a reset of the card by mlxfwreset"),
        ({"fw_needs": "nothing", "fw_loads": "reboot"}, "needs a reboot"),
        ({}, "needs a reboot"),
    ],
)
def test_what_loads_it_is_what_the_card_takes(facts: Mapping[str, str], words: str) -> None:
    plan = gpu01(site(Firmware(ats=True)))
    found = seen(plan, ats="off", ats_current="off", **facts)
    assert words in host_changes((plan,), {"gpu01": found})[0]


def test_a_preview_tells_what_goes_back() -> None:
    plan = gpu01(site(Firmware()))
    back = {
        f"pending.back.{CARD}.fw_num_of_vfs": "32 -> 16",
        f"pending.back.{CARD}.fw_sriov_en": "on -> on",
        "pending.back.kernel.cmdline.iommu": "pt -> default",
    }
    found = HostState({**plan.desired.values, **back})
    (text,) = host_changes((plan,), {"gpu01": found})
    assert text.splitlines() == [
        "gpu01: firmware of its cards",
        f"  {PCI}: NUM_OF_VFS 32 -> 16 is set for its next start; needs a reboot",
    ]


def test_what_could_not_be_read_is_no_change() -> None:
    plan = gpu01(site(Firmware(ats=True)))
    for answer in ("unsupported", "absent", "unknown"):
        assert pending_firmware(seen(plan, ats_current=answer), plan.desired) == ()


VALUES = st.sampled_from(["on", "off", "8", "16", "hidden", "unsupported", "absent"])


@given(st.fixed_dictionaries({name: st.tuples(VALUES, VALUES) for name in PARAMETERS}))
def test_only_what_does_not_run_as_wanted_is_pending(values: dict[str, tuple[str, str]]) -> None:
    wanted = HostState({f"{CARD}.{name}": "on" for name in PARAMETERS})
    answers = {f"{CARD}.{name}": new for name, (new, _) in values.items()}
    answers |= {f"{CARD}.{name}_current": now for name, (_, now) in values.items()}
    pending = pending_firmware(HostState(answers), wanted)
    assert all(each.current != each.next == "on" for each in pending)
    assert len({each.parameter for each in pending}) == len(pending)
    running = {PARAMETERS[name] for name, (_, now) in values.items() if now == "on"}
    assert not running & {each.parameter for each in pending}


def refused(firmware: Firmware, spec: ClusterSpec | None = None, **facts: str) -> str:
    spec = spec or site(firmware)
    plan = gpu01(spec)
    return "\n".join(written(hosts_refused(spec, (plan,), {"gpu01": seen(plan, **facts)})))


def test_a_host_that_can_become_as_wanted_is_not_refused() -> None:
    assert refused(Firmware()) == ""
    assert refused(Firmware(), fw_vfs_offered="16", fw_ver="16.35.2000") == ""
    spec = site(Firmware())
    assert hosts_refused(spec, plan_hosts(spec), {}) == ()


def test_a_card_that_is_not_there_is_refused_but_on_virtual_machines() -> None:
    assert f"gpu01 lacks the PCI device {PCI}" in refused(Firmware(), model="absent")
    guests = load_example("esxi-roce")
    plan = plan_hosts(guests)[0]
    gone = HostState(dict.fromkeys(plan.desired.values, "absent"))
    assert hosts_refused(guests, (plan,), {plan.name: gone}) == ()


def test_a_device_of_another_kind_is_refused() -> None:
    text = refused(Firmware(manage=True), model="unknown", fw_vfs_offered="0")
    assert f"Railyard does not know the card at {PCI} of gpu01; the file says ConnectX-5" in text
    assert "lspci -D -d 15b3:" in text
    assert "firmware.manage" not in text


@pytest.mark.parametrize(
    ("vfs", "offered", "words"),
    [
        ("absent", "unsupported", "gpu01 lacks the PCI device 0000:99:00.0"),
        ("0", "0", "gpu01 0000:99:00.0 is asked for 8 VFs, and its firmware offers 0"),
        ("0", "8", ""),
    ],
)
def test_an_infiniband_port_is_looked_at_too(vfs: str, offered: str, words: str) -> None:
    spec = load_example("quantum-ib")
    port = HcaPf(pci="0000:99:00.0", vfs=8)
    hosts = tuple(host.model_copy(update={"hca_sriov": (port,)}) for host in spec.hosts)
    spec = changed_spec(spec, hosts=hosts)
    plan = gpu01(spec)
    found = {f"nic.{port.pci}.vfs": vfs, f"nic.{port.pci}.fw_vfs_offered": offered}
    text = "\n".join(written(hosts_refused(spec, (plan,), {"gpu01": HostState(found)})))
    assert words in text
    assert bool(text) is bool(words)


def test_another_card_is_refused() -> None:
    text = refused(Firmware(), model="ConnectX-7")
    assert f"the card at {PCI} of gpu01 is a ConnectX-7, and the file says ConnectX-5" in text


def test_old_firmware_is_refused_with_both_releases() -> None:
    floor = FirmwareFloor(model="ConnectX-5", version="16.35.2000")
    asked = Firmware(min_versions=(floor,))
    text = refused(asked, fw_floor="16.28.4000")
    assert f"the firmware of {PCI} (ConnectX-5) of gpu01 is 16.28.4000, and 16.35.2000" in text
    assert refused(asked) == ""


def test_more_vfs_than_offered_are_refused_unless_the_firmware_is_ours() -> None:
    assert "asked for 8 VFs, and its firmware offers 4" in refused(Firmware(), fw_vfs_offered="4")
    assert refused(Firmware(manage=True), fw_vfs_offered="4") == ""
