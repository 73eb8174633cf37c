"""Rules on the hosts' drivers: the RDMA stack, the GPU driver's owner, and GPUDirect RDMA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from components.checks.problem import SpecPath
from components.checks.rule import Finding, at
from components.hosts.driver_versions import (
    MLNX_OFED_LAST,
    NV_PEER_MEM_LEAST,
    OPEN_MODULES_LEAST,
    PEERMEM_LEAST,
    SYSTEMS,
    gpu_branch,
    parse_driver_version,
)
from components.model.cluster import ClusterSpec
from components.model.drivers import DriverPackage
from components.model.gpu_direct import gpu_driver_owner, gpu_paths
from components.model.hosts import Host, HostDefaults, HostGroup
from components.operators.versions import show_version

_SOURCE: Final = re.compile(r"(/|https://)[A-Za-z0-9._:/@,+-]+")
"""What the scripts take as an address: nothing that a shell or apt would read otherwise."""
_NO_SIGN: Final = re.compile(r"[^A-Za-z0-9._:/@,+-]")
_FILES: Final = {"doca_ofed": (".deb", ".rpm"), "mlnx_ofed": (".tgz",)}
"""Kind to the packages that NVIDIA offers of it."""
_PATH: Final[SpecPath] = ("host_defaults", "driver")


def list_drivers(spec: ClusterSpec) -> Iterator[tuple[SpecPath, DriverPackage]]:
    """The default driver, and that of each group."""
    yield _PATH, spec.host_defaults.driver
    for g, group in enumerate(spec.host_groups):
        if group.driver is not None:
            yield ("host_groups", g, "driver"), group.driver


def check_driver_package(spec: ClusterSpec) -> Iterator[Finding]:
    """A driver package has a version, and a source with its SHA-256 checksum or a repository.

    Source, repository and its key are absolute paths on the hosts, or https addresses; the inbox
    driver has none. What is not pinned could be another driver tomorrow.
    """
    for path, driver in list_drivers(spec):
        if driver.kind == "inbox":
            yield from _inbox_findings(path, driver)
            continue
        yield from _missing_findings(path, driver)
        yield from _address_findings(path, driver)
        yield from _file_findings(path, driver)


def _inbox_findings(path: SpecPath, driver: DriverPackage) -> Iterator[Finding]:
    given = {
        "source": driver.source,
        "version": driver.version,
        "sha256": driver.sha256,
        "repository": driver.repository and driver.repository.url,
        "packages": driver.packages or None,
        "add_kernel_support": driver.add_kernel_support or None,
    }
    for key, value in given.items():
        if value is not None:
            yield Finding(
                f"the inbox driver comes with the system, and {key} is set.",
                (at((*path, key), value), at((*path, "kind"), driver.kind)),
                f"remove {key}, or choose kind doca_ofed or mlnx_ofed.",
            )


def _missing_findings(path: SpecPath, driver: DriverPackage) -> Iterator[Finding]:
    needed = {"version": driver.version, "source": driver.source, "sha256": driver.sha256}
    if driver.repository is not None:
        needed = {"version": driver.version}
    missing = [key for key, value in needed.items() if value is None]
    if missing:
        yield Finding(
            f"the driver package {driver.kind} has no {', '.join(missing)}.",
            (at((*path, "kind"), driver.kind),),
            "pin it: the version, an absolute path or https address, and the SHA-256 of the file.",
        )
    if driver.repository is not None and (driver.source or driver.sha256):
        given = {"source": driver.source, "sha256": driver.sha256}
        keys = [key for key, value in given.items() if value]
        name = "a source" if driver.source else "a checksum of a source"
        yield Finding(
            f"the driver has {name} and a repository, and it can come from one of them only.",
            (
                at((*path, keys[0]), given[keys[0]]),
                at((*path, "repository", "url"), driver.repository.url),
            ),
            f"remove {' and '.join(keys)}, or repository.",
        )


def _address_findings(path: SpecPath, driver: DriverPackage) -> Iterator[Finding]:
    where: dict[SpecPath, tuple[str, str | None]] = {
        ("source",): ("driver's source", driver.source)
    }
    if driver.repository is not None:
        where[("repository", "url")] = ("driver's repository", driver.repository.url)
        where[("repository", "key")] = ("key of the driver's repository", driver.repository.key)
    for key, (name, value) in where.items():
        if value is None or _SOURCE.fullmatch(value):
            continue
        place = (at((*path, *key), value),)
        sign = _NO_SIGN.search(value.removeprefix("https://"))
        if value.startswith(("/", "https://")) and sign:
            yield Finding(
                f'the {name} {value} has a "{sign[0]}" in it, which no host takes.',
                place,
                "offer the file at a path or an address of letters, digits and ._:/@,+- alone, "
                "without a query.",
            )
        else:
            yield Finding(
                f"the {name} {value} is neither an absolute path nor https.",
                place,
                "use an https address, or a path on the hosts that begins with /.",
            )


def _file_findings(path: SpecPath, driver: DriverPackage) -> Iterator[Finding]:
    if driver.packages and driver.repository is None:
        yield Finding(
            "packages names what to install from a repository, and there is none.",
            (at((*path, "packages"), driver.packages),),
            "add repository, or remove packages.",
        )
    ends = _FILES[driver.kind]
    readable = driver.source is not None and _SOURCE.fullmatch(driver.source)
    if driver.source is not None and readable and not driver.source.endswith(ends):
        yield Finding(
            f"{driver.source.rpartition('/')[2]} is no package of {driver.kind}, which comes as "
            f"{' or '.join(ends)}.",
            (at((*path, "source"), driver.source), at((*path, "kind"), driver.kind)),
            "name the package of that form, or correct kind; of an .iso there is a .tgz as well.",
        )
    if driver.add_kernel_support and not (driver.source or "").endswith(".tgz"):
        yield Finding(
            "add_kernel_support is an option of the MLNX_OFED installer, and the source is no .tgz "
            "of it.",
            (at((*path, "add_kernel_support"), driver.add_kernel_support),),
            "remove it: rebuild, which is on by default, builds DOCA's modules for the kernel.",
        )


def check_driver_version(spec: ClusterSpec) -> Iterator[Finding]:
    """A driver's version is one that can be read, and fits the kind and the package's name.

    MLNX_OFED ended with 24.10; later drivers are DOCA-OFED. A package for a distribution for which
    NVIDIA builds no driver container of that line is a warning: its packages follow the same list
    as far as is known.
    """
    for path, driver in list_drivers(spec):
        if driver.kind == "inbox" or driver.version is None:
            continue
        place = at((*path, "version"), driver.version)
        found = parse_driver_version(driver.version)
        if found is None:
            yield Finding(
                f"{driver.version} is no version of an RDMA driver that is known here.",
                (place,),
                "write what `ofed_info -s` says, as 24.10-1.1.4.0, or a DOCA release, as 3.2.0.",
            )
            continue
        if found.family not in {None, driver.kind}:
            yield Finding(
                f"{driver.version} is a version of {found.family}, and the kind is {driver.kind}.",
                (place, at((*path, "kind"), driver.kind)),
                f"set kind to {found.family}, or correct the version.",
            )
        elif driver.kind == "mlnx_ofed" and found.numbers > MLNX_OFED_LAST:
            yield Finding(
                f"MLNX_OFED ended with {show_version(MLNX_OFED_LAST)}, and the version is "
                f"{driver.version}.",
                (place,),
                "choose kind doca_ofed, which goes on from there, or a 24.10 release.",
            )
        yield from _named_findings(path, driver)


def _named_findings(path: SpecPath, driver: DriverPackage) -> Iterator[Finding]:
    """What a package's name says against the version beside it: DOCA's names a line alone."""
    name = (driver.source or "").rpartition("/")[2]
    named, wanted = parse_driver_version(name), parse_driver_version(driver.version or "")
    if named is None or wanted is None:
        return
    where = (at((*path, "source"), driver.source), at((*path, "version"), driver.version))
    exact = named.exact is not None and wanted.exact is not None
    if named.line != wanted.line or (exact and named.exact != wanted.exact):
        holds = named.exact or f"a {named.line} driver"
        yield Finding(
            f"the package {name} holds {holds}, and the version is {driver.version}.",
            where,
            "correct the one or the other, and the checksum with it.",
        )
    known = SYSTEMS.get(named.line)
    system = named.system or ""
    if known is not None and system.startswith("ubuntu") and system not in known:
        yield Finding(
            f"nothing is known of a {named.line} driver on {system}; it is built for "
            f"{', '.join(known)}.",
            where[:1],
            "read the release notes of that driver first, or choose another line.",
            "warning",
        )


def check_gpu_direct(spec: ClusterSpec) -> Iterator[Finding]:
    """GPUDirect RDMA is on where there are GPUs.

    Without nvidia_peermem or DMA-BUF every message is copied through the host's memory, which costs
    bandwidth and processor time.
    """
    for host in spec.workers:
        if not host.gpus or spec.settings_of(host).gpu_path != "none":
            continue
        where, value = written_gpu_path(spec, host)
        wanted = "peermem to true" if where[-1] == "peermem" else "gpu_direct to peermem or dma_buf"
        yield Finding(
            "GPUDirect RDMA is off on hosts with GPUs: no card reaches GPU memory directly.",
            (at(where, value),),
            f"set {wanted}, unless you measure without GPUDirect on purpose.",
            "warning",
        )


def written_gpu_path(spec: ClusterSpec, host: Host) -> tuple[SpecPath, object]:
    """Where it stands how the cards of a host reach GPU memory: at its group, or for all."""
    owner: HostDefaults | HostGroup = spec.host_defaults
    path: SpecPath = ("host_defaults",)
    for g, group in enumerate(spec.host_groups):
        if group.name == host.group and (group.gpu_direct or group.peermem is not None):
            owner, path = group, ("host_groups", g)
    key = "gpu_direct" if owner.gpu_direct else "peermem"
    return (*path, key), getattr(owner, key)


def check_gpu_driver(spec: ClusterSpec) -> Iterator[Finding]:
    """The GPU driver has one owner: the host, or the GPU operator's container.

    With both, the operator's container fails to load its modules beside the host's, and the node's
    GPUs are gone. A version can be demanded of a host's own driver only.
    """
    stated, operator = spec.host_defaults.gpu_driver, spec.operators.gpu
    if stated is not None and operator is not None and stated != operator.driver:
        yield Finding(
            f"the GPU driver has two owners: host_defaults says {stated}, and the GPU operator's "
            f"driver is {operator.driver}.",
            (
                at(("host_defaults", "gpu_driver"), stated),
                at(("operators", "gpu", "driver"), operator.driver),
            ),
            "write the same in both, or leave gpu_driver out.",
        )
    if stated == "operator" and operator is None:
        yield Finding(
            "the GPU operator shall bring the GPU driver, and there is no GPU operator.",
            (at(("host_defaults", "gpu_driver"), stated),),
            "add operators.gpu with driver: operator, or set gpu_driver to host.",
        )
    if gpu_driver_owner(spec) == "operator":
        for path, version in _gpu_versions(spec):
            yield Finding(
                f"version {version} of the GPU driver is demanded of the hosts, and the GPU "
                "operator brings the driver.",
                (at(path, version),),
                "remove it, or let the hosts own the driver (operators.gpu.driver: host).",
            )


def _gpu_versions(spec: ClusterSpec) -> Iterator[tuple[SpecPath, str]]:
    if spec.host_defaults.gpu_driver_version is not None:
        yield ("host_defaults", "gpu_driver_version"), spec.host_defaults.gpu_driver_version
    for g, group in enumerate(spec.host_groups):
        if group.gpu_driver_version is not None:
            yield ("host_groups", g, "gpu_driver_version"), group.gpu_driver_version


def check_peer_memory(spec: ClusterSpec) -> Iterator[Finding]:
    """What a card needs to reach GPU memory is there: the module of that driver, or DMA-BUF.

    nvidia_peermem comes with GPU driver 470, and took the place of nv_peer_mem, whose last release
    is 1.3 of January 2022 and needs MLNX_OFED 5.1. DMA-BUF needs open kernel modules (driver 515)
    and Linux 5.12, which the host is asked for. One GPU operator cannot serve both paths.
    """
    yield from _two_words(("host_defaults",), spec.host_defaults)
    for g, group in enumerate(spec.host_groups):
        yield from _two_words(("host_groups", g), group)
    for h, host in enumerate(spec.hosts):
        if host.gpus:
            yield from _path_findings(spec, host, ("hosts", h, "name"))
    yield from _operator_findings(spec)
    mixed = gpu_paths(spec)
    if len(mixed) > 1 and gpu_driver_owner(spec) == "operator":
        yield Finding(
            f"the workers reach GPU memory by {' and '.join(sorted(mixed))}, and the GPU operator "
            "loads one driver on all of them.",
            (at(("host_groups",)), at(("operators", "gpu", "driver"), "operator")),
            "use one gpu_direct for all workers, or let the hosts own the GPU driver.",
        )


def _two_words(path: SpecPath, owner: HostDefaults | HostGroup) -> Iterator[Finding]:
    """The short form and the long one, side by side, say the same."""
    stated = "peermem" in owner.model_fields_set and owner.peermem is not None
    if stated and owner.gpu_direct and owner.peermem != (owner.gpu_direct != "none"):
        yield Finding(
            f"peermem is {str(owner.peermem).lower()}, and gpu_direct is {owner.gpu_direct}.",
            (
                at((*path, "peermem"), owner.peermem),
                at((*path, "gpu_direct"), owner.gpu_direct),
            ),
            "remove peermem: gpu_direct says the same and more.",
        )


def _operator_findings(spec: ClusterSpec) -> Iterator[Finding]:
    """What the GPU operator's one driver container cannot build on."""
    operator = spec.operators.gpu
    if operator is None or operator.driver != "operator":
        return
    where = at(("operators", "gpu", "driver"), operator.driver)
    kinds = {spec.settings_of(host).driver.kind for host in spec.workers if host.gpus}
    network = spec.operators.network
    if len(kinds) > 1 and "inbox" in kinds:
        yield Finding(
            f"the workers' RDMA drivers are {' and '.join(sorted(kinds))}, and the GPU operator's "
            "driver (useHostMofed) builds on a package on all of them or on none.",
            (where, at(("host_groups",))),
            "give all workers a driver package, or none, or let the hosts own the GPU driver.",
        )
    elif kinds == {"inbox"} and "peermem" in gpu_paths(spec) and network is None:
        yield Finding(
            "the GPU operator loads nvidia_peermem, which needs MLNX_OFED or DOCA-OFED, and the "
            "workers' RDMA driver is inbox.",
            (where, at(_PATH, None)),
            "set gpu_direct to dma_buf, or give the hosts a driver package.",
            "warning",
        )


def _path_findings(spec: ClusterSpec, host: Host, where: SpecPath) -> Iterator[Finding]:
    settings = spec.settings_of(host)
    path, branch = settings.gpu_path, gpu_branch(settings.gpu_driver_version or "")
    places = (at(where, host.name), at(*written_gpu_path(spec, host)))
    if path == "nv_peer_mem":
        reason = _why_not_nv_peer_mem(spec, settings.driver, branch)
        if reason:
            yield Finding(
                f"nv_peer_mem cannot load: {reason}.",
                places,
                "set gpu_direct to peermem: nvidia_peermem of GPU driver 470 and later took its "
                "place; or to dma_buf with Linux 5.12 and open GPU kernel modules.",
            )
    least = {"peermem": PEERMEM_LEAST, "dma_buf": OPEN_MODULES_LEAST}.get(path, 0)
    if branch is not None and branch < least:
        yield Finding(
            f"gpu_direct is {path}, which comes with GPU driver {least}, and the hosts have "
            f"{settings.gpu_driver_version}.",
            places,
            f"update the GPU driver to {least} or later, or choose another gpu_direct.",
        )


def _why_not_nv_peer_mem(
    spec: ClusterSpec, driver: DriverPackage, branch: int | None
) -> str | None:
    """Why the file says already that nv_peer_mem cannot load; the host's kernel is asked later."""
    found = parse_driver_version(driver.version or "")
    needs = f"it needs MLNX_OFED {show_version(NV_PEER_MEM_LEAST)}"
    if gpu_driver_owner(spec) == "operator":
        return f"the GPU operator's driver is later than {PEERMEM_LEAST}"
    if branch is not None and branch >= PEERMEM_LEAST:
        return f"GPU driver {branch} brings nvidia_peermem in its place"
    if driver.kind != "mlnx_ofed":
        return f"{needs}, and the driver is {driver.kind}"
    if found is not None and found.numbers < NV_PEER_MEM_LEAST:
        return f"{needs}, and this is {driver.version}"
    return None
