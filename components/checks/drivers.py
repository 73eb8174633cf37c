"""Rules on cards and their software: the firmware, and the RDMA driver of the hosts."""

from __future__ import annotations

from collections.abc import Sized
from itertools import product
from typing import Final

from components.catalogue import operator_versions as releases
from components.catalogue.cards import CARDS, IB_PORTS
from components.checks.rule import Finding, Findings, at, find, twins, walk
from components.checks.topology import HostBlock, block_path, host_blocks, list_cards, list_nics
from components.core.problem import render_path
from components.model.cards import DriverPackage, Firmware, HcaPf, HostQos, version_number
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic

_FILES: Final = {"doca_ofed": (".deb", ".rpm"), "mlnx_ofed": (".tgz",)}
"""Kind to the suffixes of the packages that NVIDIA offers."""
_AFTER_OFED: Final = frozenset({"ConnectX-8", "ConnectX-9"})
"""Cards that came after the last MLNX_OFED."""


def check_nic_speed(spec: ClusterSpec) -> Findings:
    """No NIC is faster than the fastest port of its card's model.

    Acceptance measures against that rate: every run would fail.
    """
    for nic in [nic for nic in list_nics(spec) if nic.nic.is_too_fast]:
        model, speed = nic.nic.model, nic.nic.speed_gbit_s
        able = ", ".join(name for name, each in CARDS.items() if each.fastest_gbit_s >= speed)
        what = f"a {model} has at most {nic.nic.fastest_gbit_s} Gbit/s, not {speed}."
        fix = "correct the speed, or the model" + (f": {able} have such ports." if able else ".")
        yield Finding(what, nic.at("speed_gbit_s", "model"), fix)


def check_firmware_vfs(spec: ClusterSpec) -> Findings:
    """The number of VFs that a card's firmware offers is within its limit and enough for its ports.

    Railyard sets it only if it manages the firmware.
    """
    for block in host_blocks(spec, "firmware", Firmware):
        count, guests = block.value.num_of_vfs, bool(spec.hypervisors)
        if count is not None and not block.value.manage and not guests:  # else `firmware-guests`
            yield find("firmware-vfs", *block.at("num_of_vfs", "manage"), count=count)
    fix = "correct firmware.num_of_vfs, or remove it: each card then offers the VFs that it needs."
    for host, card, path in list_cards(spec):
        firmware, what = spec.settings_of(host).firmware, ""
        count, limit = firmware.num_of_vfs, card.vf_limit if isinstance(card, Nic) else None
        if count is None or not firmware.manage:
            continue
        if card.vfs > count:
            what = f"a port needs {card.vfs} VFs"
        elif isinstance(card, Nic) and limit is not None and count > limit:
            what = f"a {card.model} has at most {limit} VFs a port"
        if what:
            what += f", but firmware.num_of_vfs is {count}."
            yield Finding(what, (at((*path, "vfs"), card.vfs),), fix)


def check_firmware_floor(spec: ClusterSpec) -> Findings:
    """The oldest allowed firmware is stated once a model, in a release of that model's family.

    The first number of a release is its family, and a card never runs another family's.
    """
    for block in host_blocks(spec, "firmware", Firmware):
        models = {nic.model for host in block.hosts for nic in host.nics}
        floors = [(f"min_versions.{n}", each) for n, each in enumerate(block.value.min_versions)]
        for key, floor in floors:
            model, family = floor.model, CARDS[floor.model].firmware_family
            if version_number(floor.version)[0] != family:
                where = block.at(f"{key}.version")
                yield find("firmware-floor-family", *where, floor=floor, model=model, family=family)
            if models and model not in models:
                words = {"model": model, "models": ", ".join(sorted(models))}
                yield find("firmware-floor-unused", *block.at(f"{key}.model"), **words)
        for (key, floor), (first, _) in twins(floors, lambda each: each[1].model):
            what = f"two oldest releases are named for {floor.model}."
            yield Finding(what, block.at(f"{first}.model", f"{key}.model"), "keep one entry.")


def check_port_function(spec: ClusterSpec) -> Findings:
    """A card with managed firmware is listed by the address of a port, not of a VF.

    A VF has no firmware settings. Ports are the first functions of a PCI device.
    """
    for host, card, path in list_cards(spec):
        model = card.card if isinstance(card, Nic) else None
        count = IB_PORTS if isinstance(card, HcaPf) else model.ports if model else None
        function = int(card.pci.rpartition(".")[2])
        managed = spec.settings_of(host).firmware.manage
        if managed and count is not None and function >= count:
            where = (at((*path, "pci"), card.pci),)
            yield find("port-function", *where, card=card, host=host, last=count - 1)


def check_firmware_guests(spec: ClusterSpec) -> Findings:
    """In virtual machines, ATS is the only firmware setting that Railyard makes.

    Railyard reboots hypervisors only for ATS: other settings would wait for ever.
    """
    keys = ("manage", "num_of_vfs", "relaxed_ordering") if spec.hypervisors else ()
    for block, key in product(host_blocks(spec, "firmware", Firmware), keys):
        if getattr(block.value, key):
            yield find("firmware-guests", *block.at(key), key=key)


def check_hca_settings(spec: ClusterSpec) -> Findings:
    """Hosts with InfiniBand adapters ask only for settings that Railyard can make there.

    Only ports under `hca_sriov` have the PCI address that firmware settings need. Adapters have no
    models and carry no RoCE. A cloud's adapters use the driver of its image.
    """
    for host, here in walk(spec, "hosts.*", Host):
        driver = spec.settings_of(host).driver
        if host.hcas and spec.cloud is not None and driver.is_installed:
            place = at((*block_path(spec, host, "driver"), "kind"), driver.kind)
            yield find("hca-settings-driver", place, *here("hcas"), driver=driver)
        if not host.hcas or host.nics:
            continue
        settings, path = spec.settings_of(host), block_path(spec, host, "firmware")
        for key in ("manage", "relaxed_ordering"):
            if getattr(settings.firmware, key) and not host.hca_sriov:
                yield find("hca-addresses", at((*path, key), value=True), *here("hcas"), key=key)
        if settings.firmware.min_versions:
            yield find("hca-settings-min-versions", at((*path, "min_versions")), *here("hcas"))
        if settings.qos != HostQos():
            yield find("hca-settings-qos", at(block_path(spec, host, "qos")), *here("hcas"))


def check_guest_ats(spec: ClusterSpec) -> Findings:
    """ATS is set in the cards of virtual machines, and only there.

    Without ATS every message of a guest between GPU and card goes over the processor. Bare metal
    has no such translation.
    """
    for block in host_blocks(spec, "firmware", Firmware):
        setting, where = render_path((*block.path, "ats")), block.at("ats")
        if block.value.ats and not spec.hypervisors:
            yield find("guest-ats-esxi", *where, setting=setting)
        if spec.hypervisors and block.hosts and not block.value.ats:
            yield find("guest-ats-hosts", *where, setting=setting)


def check_driver_package(spec: ClusterSpec) -> Findings:
    """A driver package has a version, and a source with its SHA-256 checksum or a repository.

    Inbox and present drivers have neither. An unpinned package could be another driver tomorrow.
    """
    for block in host_blocks(spec, "driver", DriverPackage):
        driver = block.value
        given = [key for key in ("flavour", "at_least") if key in driver.model_fields_set]
        keys = " and ".join(given)
        if given and driver.kind != "present":
            where = block.at(*given, "kind")
            yield find("driver-package-present", *where, keys=keys, be=_be(given), driver=driver)
        elif driver.at_least is not None and not driver.is_ofed:
            yield find("driver-package-flavour", *block.at(*given), driver=driver)
        if driver.is_installed:
            pinned = [key for key in ("source", "sha256") if getattr(driver, key)]
            needed = ("version",) if driver.repository else ("version", "source", "sha256")
            if missing := [key for key in needed if getattr(driver, key) is None]:
                what = f"the driver package {driver.kind} lacks {', '.join(missing)}."
                fix = "pin it: version, source (a path or https address) and sha256"
                fix += "; or version and repository." if driver.kind == "doca_ofed" else "."
                yield Finding(what, block.at("kind"), fix)
            if driver.repository is not None and pinned:
                name = "a source" if driver.source else "a checksum of a source"
                where = block.at(pinned[0], "repository.url")
                yield find("driver-package-both", *where, name=name, keys=" and ".join(pinned))
            yield from _file_findings(block)
            continue
        own = ("source", "version", "sha256", "repository", "packages", "add_kernel_support")
        shown = {key: value for key in own if (value := getattr(driver, key))}
        if shown:
            what = "inbox driver comes with" if driver.kind == "inbox" else "driver is present in"
            what = f"the {what} the system, but {', '.join(shown)} {_be(shown)} set."
            shown |= {"repository": driver.repository.url} if driver.repository else {}
            where = tuple(at((*block.path, key), value) for key, value in shown.items())
            fix = f"remove {', '.join(shown)}, or choose the kind of the package: doca_ofed or "
            yield Finding(what, where + block.at("kind"), f"{fix}mlnx_ofed.")


def _be(keys: Sized) -> str:
    return "is" if len(keys) == 1 else "are"


def _file_findings(block: HostBlock[DriverPackage]) -> Findings:
    driver, ends = block.value, _FILES[block.value.kind]
    if driver.packages and driver.repository is None:
        yield find("driver-package-repository", at((*block.path, "packages"), driver.packages))
    if driver.source is not None and not driver.source.endswith(ends):
        name = driver.source.rpartition("/")[2]
        where = block.at("source", "kind")
        yield find("driver-package-file", *where, name=name, ends=" or ".join(ends), driver=driver)
    if driver.add_kernel_support and not (driver.source or "").endswith(".tgz"):
        yield find("driver-package-add-kernel-support", *block.at("add_kernel_support"))


def check_driver_version(spec: ClusterSpec) -> Findings:
    """A driver's version is readable, and fits the kind, the cards and its package.

    MLNX_OFED ended with 24.10; later drivers are DOCA-OFED, and cards since ConnectX-8 need it. A
    distribution for which NVIDIA builds no driver container of that line is a warning: packages
    probably follow the same list.
    """
    for block in host_blocks(spec, "driver", DriverPackage):
        driver, key = block.value, "at_least" if block.value.kind == "present" else "version"
        version: str | None = getattr(driver, key)
        found = releases.parse_driver_version(version or "")
        if version is not None and driver.kind != "inbox" and found is None:
            yield find("driver-version-unread", *block.at(key), version=version)
        if found is None or not driver.is_installed:
            continue
        if found.family not in {None, driver.kind}:
            yield find("driver-family", *block.at("version", "kind"), driver=driver, found=found)
        elif driver.kind == "mlnx_ofed" and found.numbers > releases.MLNX_OFED_LAST:
            words = {"last": releases.show_version(releases.MLNX_OFED_LAST), "driver": driver}
            yield find("driver-version-ended", *block.at("version"), **words)
        # ConnectX-8 and 9 came after the last MLNX_OFED: sources.md#rdma-driver.
        late = [nic for nic in list_nics(spec) if nic.nic.model in _AFTER_OFED]
        late = [nic for nic in late if spec.settings_of(nic.host).driver == driver]
        for nic in late[:1] if driver.kind == "mlnx_ofed" else ():
            yield find("driver-card", *block.at("kind"), *nic.at("model"), driver=driver, nic=nic)
        yield from _named_findings(block)


def _named_findings(block: HostBlock[DriverPackage]) -> Findings:
    """Compare a package's name with its version; DOCA's names show only the release line."""
    driver = block.value
    name = (driver.source or "").rpartition("/")[2]
    named = releases.parse_driver_version(name)
    wanted = releases.parse_driver_version(driver.version or "")
    if named is None or wanted is None:
        return
    exact = named.exact is not None and wanted.exact is not None
    if named.line != wanted.line or (exact and named.exact != wanted.exact):
        holds = named.exact or f"a {named.line} driver"
        where = block.at("source", "version")
        yield find("driver-version-file", *where, name=name, holds=holds, driver=driver)
    known, system = releases.SYSTEMS.get(named.line), named.system or ""
    if known is not None and system.startswith("ubuntu") and system not in known:
        words = {"named": named, "systems": ", ".join(known), "system": system}
        yield find("driver-version-system", *block.at("source"), **words)
