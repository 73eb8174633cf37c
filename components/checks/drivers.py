"""Rules on cards and their software: the firmware, and the RDMA driver of the hosts."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from components.catalogue.cards import CARDS, IB_PORTS
from components.catalogue.operator_versions import (
    MLNX_OFED_LAST,
    SYSTEMS,
    parse_driver_version,
    show_version,
)
from components.checks.rule import Finding, Findings, at
from components.checks.topology import block_path, host_blocks, list_nics
from components.core.problem import SpecPath, render_path
from components.model.cards import DriverPackage, Firmware, HostQos, version_number
from components.model.cluster import ClusterSpec
from components.model.hosts import Host


def check_nic_speed(spec: ClusterSpec) -> Findings:
    """No NIC is faster than the fastest port of its card's model.

    Acceptance measures against that rate: every run would fail.
    """
    for nic in list_nics(spec):
        fastest = nic.nic.fastest_gbit_s
        if nic.nic.is_too_fast:
            able = [
                name for name, each in CARDS.items() if each.fastest_gbit_s >= nic.nic.speed_gbit_s
            ]
            yield Finding(
                f"a {nic.nic.model} has at most {fastest} Gbit/s, not {nic.nic.speed_gbit_s}.",
                (nic.at("speed_gbit_s"), nic.at("model")),
                "correct the speed, or the model"
                + (f": {', '.join(able)} have such ports." if able else "."),
            )


def check_firmware_vfs(spec: ClusterSpec) -> Findings:
    """The number of VFs that a card's firmware offers is within its limit and enough for its ports.

    Railyard sets it only if it manages the firmware.
    """
    for block in host_blocks(spec, "firmware", Firmware):
        count, guests = block.value.num_of_vfs, bool(spec.hypervisors)
        if count is not None and not block.value.manage and not guests:  # else `firmware-guests`
            what = f"firmware.num_of_vfs is {count}, but firmware.manage is false."
            where = (block.at("num_of_vfs"), block.at("manage"))
            yield Finding(what, where, "set manage to true, or remove num_of_vfs.")
    for h, host in enumerate(spec.hosts):
        firmware = spec.settings_of(host).firmware
        if firmware.manage and firmware.num_of_vfs is not None:
            yield from _offered_findings(host, h, firmware.num_of_vfs)


def _offered_findings(host: Host, h: int, count: int) -> Findings:
    ports = [(("nics", n), nic.vfs, nic) for n, nic in enumerate(host.nics)]
    ports += [(("hca_sriov", p), pf.vfs, None) for p, pf in enumerate(host.hca_sriov)]
    for place, vfs, card in ports:
        if vfs > count:
            what = f"a port needs {vfs} VFs, but firmware.num_of_vfs is {count}."
        elif card is not None and card.vf_limit is not None and count > card.vf_limit:
            most = f"a {card.model} has at most {card.vf_limit} VFs a port"
            what = f"{most}, but firmware.num_of_vfs is {count}."
        else:
            continue
        fix = (
            "correct firmware.num_of_vfs, or remove it: each card then offers the VFs that it "
            "needs."
        )
        yield Finding(what, (at(("hosts", h, *place, "vfs"), vfs),), fix)


def check_firmware_floor(spec: ClusterSpec) -> Findings:
    """The oldest allowed firmware is stated once a model, in a release of that model's family.

    The first number of a release is its family, and a card never runs another family's.
    """
    for path, firmware, hosts in host_blocks(spec, "firmware", Firmware):
        models = {nic.model for host in hosts for nic in host.nics}
        seen: dict[str, SpecPath] = {}
        for number, floor in enumerate(firmware.min_versions):
            place = (*path, "min_versions", number)
            family = CARDS[floor.model].firmware_family
            if version_number(floor.version)[0] != family:
                what = f"{floor.version} is not for a {floor.model}: its releases are {family}.x."
                fix = "write a release of that family, as the firmware's release notes name it."
                yield Finding(what, (at((*place, "version"), floor.version),), fix)
            if models and floor.model not in models:
                what = f"min_versions names {floor.model}, but none of its hosts has such a card."
                fix = f"correct the model ({', '.join(sorted(models))}), or remove the entry."
                yield Finding(what, (at((*place, "model"), floor.model),), fix, "warning")
            first = seen.setdefault(floor.model, place)
            if first != place:
                where = (at((*first, "model"), floor.model), at((*place, "model"), floor.model))
                fix = "keep one entry."
                yield Finding(f"two oldest releases are named for {floor.model}.", where, fix)


def check_port_function(spec: ClusterSpec) -> Findings:
    """A card with managed firmware is listed by the address of a port, not of a VF.

    A VF has no firmware settings. Ports are the first functions of a PCI device.
    """
    for h, host in enumerate(spec.hosts):
        if not spec.settings_of(host).firmware.manage:
            continue
        ports = [
            (("nics", n), nic.pci, nic.card.ports) for n, nic in enumerate(host.nics) if nic.card
        ]
        ports += [(("hca_sriov", p), pf.pci, IB_PORTS) for p, pf in enumerate(host.hca_sriov)]
        for place, pci, count in ports:
            function = int(pci.rpartition(".")[2])
            if function >= count:
                what = f"{pci} of {host.name} is a VF: its ports are functions 0 to {count - 1}."
                fix = "write the PF's address (`railyard discover` shows it)."
                yield Finding(what, (at(("hosts", h, *place, "pci"), pci),), fix)


def check_firmware_guests(spec: ClusterSpec) -> Findings:
    """In virtual machines, ATS is the only firmware setting that Railyard makes.

    Railyard reboots hypervisors only for ATS: other settings would wait for ever.
    """
    if not spec.hypervisors:
        return
    for block in host_blocks(spec, "firmware", Firmware):
        for key in ("manage", "num_of_vfs", "relaxed_ordering"):
            if getattr(block.value, key):
                what = "is asked for on virtual machines, whose cards their hypervisors start."
                fix = f"remove {key}; set these parameters on the hypervisor with its own tools."
                yield Finding(f"{key} {what}", (block.at(key),), fix)


def check_hca_settings(spec: ClusterSpec) -> Findings:
    """Hosts with InfiniBand adapters ask only for settings that Railyard can make there.

    Only ports under `hca_sriov` have the PCI address that firmware settings need. Adapters have no
    models and carry no RoCE. A cloud's adapters use the driver of its image.
    """
    for h, host in enumerate(spec.hosts):
        if not host.hcas:
            continue
        hcas = at(("hosts", h, "hcas"), host.hcas)
        path, driver = block_path(spec, host, "driver"), spec.settings_of(host).driver
        if spec.cloud is not None and driver.is_installed:
            what = f"{driver.kind} would not be installed: the cloud's image brings the driver."
            fix = "choose an image with the driver, and set driver.kind to present."
            yield Finding(what, (at((*path, "kind"), driver.kind), hcas), fix)
        if not host.nics:
            for finding in _unset(spec, host):
                yield Finding(finding.what, (*finding.where, hcas), finding.fix)


def _unset(spec: ClusterSpec, host: Host) -> Findings:
    settings = spec.settings_of(host)
    path = block_path(spec, host, "firmware")
    for key in ("manage", "relaxed_ordering"):
        if getattr(settings.firmware, key) and not host.hca_sriov:
            what = f"{key} is set, but the file lacks the PCI addresses of the InfiniBand adapters."
            fix = f"remove {key}, or list the ports under hca_sriov (vfs: 0 if they need no VFs)."
            yield Finding(what, (at((*path, key), value=True),), fix)
    if settings.firmware.min_versions:
        what = "min_versions needs card models, but the file lacks those of InfiniBand adapters."
        fix = "remove min_versions, or move it to a group of host_groups whose hosts have nics."
        yield Finding(what, (at((*path, "min_versions")),), fix)
    if settings.qos != HostQos():
        where = (at(block_path(spec, host, "qos")),)
        fix = "remove qos, or move it to a group of host_groups whose hosts have nics."
        yield Finding("qos needs RoCE, but these hosts only have InfiniBand adapters.", where, fix)


def check_guest_ats(spec: ClusterSpec) -> Findings:
    """ATS is set in the cards of virtual machines, and only there.

    Without ATS every message of a guest between GPU and card goes over the processor. Bare metal
    has no such translation.
    """
    for path, firmware, hosts in host_blocks(spec, "firmware", Firmware):
        setting = render_path((*path, "ats"))
        place = at((*path, "ats"), firmware.ats)
        if firmware.ats and not spec.hypervisors:
            what = "ATS is for virtual machines on ESXi, but this site lacks hypervisors."
            fix = f"remove {setting}, or describe the hypervisors with environment kind esxi."
            yield Finding(what, (place,), fix)
        if spec.hypervisors and hosts and not firmware.ats:
            what = "the hosts are virtual machines, but ATS of their cards is off."
            fix = f"set {setting} to true, unless you measure without GPUDirect on purpose."
            yield Finding(what, (place,), fix, "warning")


_FILES: Final = {"doca_ofed": (".deb", ".rpm"), "mlnx_ofed": (".tgz",)}
"""Kind to the suffixes of the packages that NVIDIA offers."""
_PATH: Final[SpecPath] = ("host_defaults", "driver")
_AFTER_OFED: Final = frozenset({"ConnectX-8", "ConnectX-9"})
"""Cards that came after the last MLNX_OFED."""


def check_driver_package(spec: ClusterSpec) -> Findings:
    """A driver package has a version, and a source with its SHA-256 checksum or a repository.

    Inbox and present drivers have neither. An unpinned package could be another driver tomorrow.
    """
    for path, driver, _ in host_blocks(spec, "driver", DriverPackage):
        yield from _present_findings(path, driver)
        if not driver.is_installed:
            yield from _own_findings(path, driver)
            continue
        yield from _missing_findings(path, driver)
        yield from _file_findings(path, driver)


def _present_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    given = [key for key in ("flavour", "at_least") if key in driver.model_fields_set]
    where = tuple(at((*path, key), getattr(driver, key)) for key in given)
    if given and driver.kind != "present":
        what = f"{' and '.join(given)} {_be(given)} set, but the driver is {driver.kind}."
        fix = f"remove {' and '.join(given)}, or set kind to present."
        yield Finding(what, (*where, at((*path, "kind"), driver.kind)), fix)
    elif driver.at_least is not None and not driver.is_ofed:
        what = f"at_least needs one of NVIDIA's packages, but the flavour is {driver.flavour}."
        yield Finding(what, where, "remove at_least, or set flavour to ofed or doca.")


def _own_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    given = {
        "source": driver.source,
        "version": driver.version,
        "sha256": driver.sha256,
        "repository": driver.repository and driver.repository.url,
        "packages": driver.packages or None,
        "add_kernel_support": driver.add_kernel_support or None,
    }
    extra = {key: value for key, value in given.items() if value is not None}
    if extra:
        keys = ", ".join(extra)
        what = "inbox driver comes with" if driver.kind == "inbox" else "driver is present in"
        where = (
            *(at((*path, key), value) for key, value in extra.items()),
            at((*path, "kind"), driver.kind),
        )
        fix = f"remove {keys}, or choose the kind of the package: doca_ofed or mlnx_ofed."
        yield Finding(f"the {what} the system, but {keys} {_be(extra)} set.", where, fix)


def _be(keys: Sized) -> str:
    return "is" if len(keys) == 1 else "are"


def _missing_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    needed = {"version": driver.version, "source": driver.source, "sha256": driver.sha256}
    if driver.repository is not None:
        needed = {"version": driver.version}
    missing = [key for key, value in needed.items() if value is None]
    if missing:
        yield Finding(
            f"the driver package {driver.kind} lacks {', '.join(missing)}.",
            (at((*path, "kind"), driver.kind),),
            "pin it: version, source (a path or https address) and sha256; or version and "
            "repository."
            if driver.kind == "doca_ofed"
            else "pin it: version, source (a path or https address) and sha256.",
        )
    if driver.repository is not None and (driver.source or driver.sha256):
        given = {"source": driver.source, "sha256": driver.sha256}
        keys = [key for key, value in given.items() if value]
        name = "a source" if driver.source else "a checksum of a source"
        what = f"the driver has {name} and a repository, but needs only one."
        where = (
            at((*path, keys[0]), given[keys[0]]),
            at((*path, "repository", "url"), driver.repository.url),
        )
        yield Finding(what, where, f"remove {' and '.join(keys)}, or repository.")


def _file_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    if driver.packages and driver.repository is None:
        what = "packages needs a repository, but repository is not set."
        fix = "add repository, or remove packages."
        yield Finding(what, (at((*path, "packages"), driver.packages),), fix)
    ends = _FILES[driver.kind]
    if driver.source is not None and not driver.source.endswith(ends):
        name = driver.source.rpartition("/")[2]
        what = f"{name} is not a {' or '.join(ends)} file, as {driver.kind} needs."
        where = (at((*path, "source"), driver.source), at((*path, "kind"), driver.kind))
        fix = "name the package of that form, or correct kind; of an .iso there is a .tgz as well."
        yield Finding(what, where, fix)
    if driver.add_kernel_support and not (driver.source or "").endswith(".tgz"):
        what = "add_kernel_support needs MLNX_OFED's .tgz, but source is another package."
        fix = "remove it: rebuild, which is on by default, builds DOCA's modules for the kernel."
        yield Finding(what, (at((*path, "add_kernel_support"), driver.add_kernel_support),), fix)


def check_driver_version(spec: ClusterSpec) -> Findings:
    """A driver's version is readable, and fits the kind, the cards and its package.

    MLNX_OFED ended with 24.10; later drivers are DOCA-OFED, and cards since ConnectX-8 need it. A
    distribution for which NVIDIA builds no driver container of that line is a warning: packages
    probably follow the same list.
    """
    for path, driver, _ in host_blocks(spec, "driver", DriverPackage):
        key = "at_least" if driver.kind == "present" else "version"
        version = driver.at_least if driver.kind == "present" else driver.version
        if version is None or driver.kind == "inbox":
            continue
        place = at((*path, key), version)
        found = parse_driver_version(version)
        if found is None:
            fix = "write what `ofed_info -s` says, as 24.10-1.1.4.0, or a DOCA release, as 3.2.0."
            yield Finding(f"{version} is not a known version of an RDMA driver.", (place,), fix)
            continue
        if driver.kind == "present":
            continue
        if found.family not in {None, driver.kind}:
            what = f"{driver.version} is a version of {found.family}, not of {driver.kind}."
            fix = f"set kind to {found.family}, or correct the version."
            yield Finding(what, (place, at((*path, "kind"), driver.kind)), fix)
        elif driver.kind == "mlnx_ofed" and found.numbers > MLNX_OFED_LAST:
            what = f"MLNX_OFED ended with {show_version(MLNX_OFED_LAST)}, before {driver.version}."
            fix = "choose kind doca_ofed, which goes on from there, or a 24.10 release."
            yield Finding(what, (place,), fix)
        yield from _card_findings(spec, path, driver)
        yield from _named_findings(path, driver)


def _card_findings(spec: ClusterSpec, path: SpecPath, driver: DriverPackage) -> Findings:
    """ConnectX-8 and 9 came after the last MLNX_OFED: sources.md#rdma-driver."""
    if driver.kind != "mlnx_ofed":
        return
    for each in list_nics(spec):
        if each.nic.model not in _AFTER_OFED:
            continue
        if spec.settings_of(each.host).driver == driver:
            yield Finding(
                f"MLNX_OFED {driver.version} lacks support for the {each.nic.model} of "
                f"{each.host.name}.",
                (at((*path, "kind"), driver.kind), each.at("model")),
                "choose kind doca_ofed, or correct the model.",
            )
            return


def _named_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    """Compare a package's name with its version; DOCA's names show only the release line."""
    name = (driver.source or "").rpartition("/")[2]
    named, wanted = parse_driver_version(name), parse_driver_version(driver.version or "")
    if named is None or wanted is None:
        return
    where = (at((*path, "source"), driver.source), at((*path, "version"), driver.version))
    exact = named.exact is not None and wanted.exact is not None
    if named.line != wanted.line or (exact and named.exact != wanted.exact):
        holds = named.exact or f"a {named.line} driver"
        what = f"the package {name} holds {holds}, but the version is {driver.version}."
        yield Finding(what, where, "correct the one or the other, and the checksum with it.")
    known = SYSTEMS.get(named.line)
    system = named.system or ""
    if known is not None and system.startswith("ubuntu") and system not in known:
        what = f"a {named.line} driver is built for {', '.join(known)}, not for {system}."
        fix = "read the release notes of that driver first, or choose another line."
        yield Finding(what, where[:1], fix, "warning")
