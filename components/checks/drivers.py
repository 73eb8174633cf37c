"""Rules on the RDMA driver of the hosts: its package, its version and the cards."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Final

from components.catalogue.operator_versions import (
    MLNX_OFED_LAST,
    SYSTEMS,
    parse_driver_version,
    show_version,
)
from components.checks.rule import Finding, Findings, at
from components.checks.topology import list_nics
from components.core.problem import SpecPath
from components.model.cards import DriverPackage
from components.model.cluster import ClusterSpec

_FILES: Final = {"doca_ofed": (".deb", ".rpm"), "mlnx_ofed": (".tgz",)}
"""Kind to the packages that NVIDIA offers of it."""
_PATH: Final[SpecPath] = ("host_defaults", "driver")
_AFTER_OFED: Final = frozenset({"ConnectX-8", "ConnectX-9"})
"""Cards that came after the last MLNX_OFED."""


def list_drivers(spec: ClusterSpec) -> Iterator[tuple[SpecPath, DriverPackage]]:
    """The default driver, and that of each group."""
    yield _PATH, spec.host_defaults.driver
    for g, group in enumerate(spec.host_groups):
        if group.driver is not None:
            yield ("host_groups", g, "driver"), group.driver


def check_driver_package(spec: ClusterSpec) -> Findings:
    """A driver package has a version, and a source with its SHA-256 checksum or a repository.

    The inbox driver has none, and one that is present is the hosts' own. What is not pinned could
    be another driver tomorrow.
    """
    for path, driver in list_drivers(spec):
        yield from _present_findings(path, driver)
        if not driver.is_installed:
            yield from _own_findings(path, driver)
            continue
        yield from _missing_findings(path, driver)
        yield from _file_findings(path, driver)


def _present_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    """`flavour` and `at_least` say what must be there: of a driver that Railyard installs, no."""
    given = [key for key in ("flavour", "at_least") if key in driver.model_fields_set]
    where = tuple(at((*path, key), getattr(driver, key)) for key in given)
    if given and driver.kind != "present":
        what = f"{' and '.join(given)} {_be(given)} set, and the driver is {driver.kind}."
        fix = f"remove {' and '.join(given)}, or set kind to present."
        yield Finding(what, (*where, at((*path, "kind"), driver.kind)), fix)
    elif driver.at_least is not None and not driver.is_ofed:
        what = f"at_least is a version of NVIDIA's packages, and the flavour is {driver.flavour}."
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
        yield Finding(f"the {what} the system, and {keys} {_be(extra)} set.", where, fix)


def _be(keys: Sized) -> str:
    return "is" if len(keys) == 1 else "are"


def _missing_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    needed = {"version": driver.version, "source": driver.source, "sha256": driver.sha256}
    if driver.repository is not None:
        needed = {"version": driver.version}
    missing = [key for key, value in needed.items() if value is None]
    if missing:
        yield Finding(
            f"the driver package {driver.kind} has no {', '.join(missing)}.",
            (at((*path, "kind"), driver.kind),),
            "pin it: version, source (an absolute path or https address) and sha256 of the file; "
            "or version and repository, as DOCA-OFED is offered."
            if driver.kind == "doca_ofed"
            else "pin it: version, source (an absolute path or https address) and sha256 of the "
            "file.",
        )
    if driver.repository is not None and (driver.source or driver.sha256):
        given = {"source": driver.source, "sha256": driver.sha256}
        keys = [key for key, value in given.items() if value]
        name = "a source" if driver.source else "a checksum of a source"
        what = f"the driver has {name} and a repository, and it can come from one of them only."
        where = (
            at((*path, keys[0]), given[keys[0]]),
            at((*path, "repository", "url"), driver.repository.url),
        )
        yield Finding(what, where, f"remove {' and '.join(keys)}, or repository.")


def _file_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    if driver.packages and driver.repository is None:
        what = "packages names what to install from a repository, and there is none."
        fix = "add repository, or remove packages."
        yield Finding(what, (at((*path, "packages"), driver.packages),), fix)
    ends = _FILES[driver.kind]
    if driver.source is not None and not driver.source.endswith(ends):
        yield Finding(
            f"{driver.source.rpartition('/')[2]} is no package of {driver.kind}, which comes as "
            f"{' or '.join(ends)}.",
            (at((*path, "source"), driver.source), at((*path, "kind"), driver.kind)),
            "name the package of that form, or correct kind; of an .iso there is a .tgz as well.",
        )
    if driver.add_kernel_support and not (driver.source or "").endswith(".tgz"):
        what = "add_kernel_support is for MLNX_OFED's installer, and the source is not its .tgz."
        fix = "remove it: rebuild, which is on by default, builds DOCA's modules for the kernel."
        yield Finding(what, (at((*path, "add_kernel_support"), driver.add_kernel_support),), fix)


def check_driver_version(spec: ClusterSpec) -> Findings:
    """A driver's version is one that can be read, and fits the kind, the cards and its package.

    MLNX_OFED ended with 24.10; later drivers are DOCA-OFED, and cards since ConnectX-8 need it. A
    package for a distribution for which NVIDIA builds no driver container of that line is a
    warning: its packages follow the same list as far as is known.
    """
    for path, driver in list_drivers(spec):
        key = "at_least" if driver.kind == "present" else "version"
        version = driver.at_least if driver.kind == "present" else driver.version
        if version is None or driver.kind == "inbox":
            continue
        place = at((*path, key), version)
        found = parse_driver_version(version)
        if found is None:
            what = f"{version} is no version of an RDMA driver that is known here."
            fix = "write what `ofed_info -s` says, as 24.10-1.1.4.0, or a DOCA release, as 3.2.0."
            yield Finding(what, (place,), fix)
            continue
        if driver.kind == "present":
            continue
        if found.family not in {None, driver.kind}:
            yield Finding(
                f"{driver.version} is a version of {found.family}, and the kind is {driver.kind}.",
                (place, at((*path, "kind"), driver.kind)),
                f"set kind to {found.family}, or correct the version.",
            )
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
                f"MLNX_OFED {driver.version} does not know the {each.nic.model} of "
                f"{each.host.name}.",
                (at((*path, "kind"), driver.kind), each.at("model")),
                "choose kind doca_ofed, or correct the model.",
            )
            return


def _named_findings(path: SpecPath, driver: DriverPackage) -> Findings:
    """What a package's name says against the version beside it: DOCA's names a line alone."""
    name = (driver.source or "").rpartition("/")[2]
    named, wanted = parse_driver_version(name), parse_driver_version(driver.version or "")
    if named is None or wanted is None:
        return
    where = (at((*path, "source"), driver.source), at((*path, "version"), driver.version))
    exact = named.exact is not None and wanted.exact is not None
    if named.line != wanted.line or (exact and named.exact != wanted.exact):
        holds = named.exact or f"a {named.line} driver"
        what = f"the package {name} holds {holds}, and the version is {driver.version}."
        yield Finding(what, where, "correct the one or the other, and the checksum with it.")
    known = SYSTEMS.get(named.line)
    system = named.system or ""
    if known is not None and system.startswith("ubuntu") and system not in known:
        what = f"a {named.line} driver is built for {', '.join(known)}, not for {system}."
        fix = "read the release notes of that driver first, or choose another line."
        yield Finding(what, where[:1], fix, "warning")
