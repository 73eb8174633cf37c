"""List what hosts and this machine fetch, and judge whether they can; check the evidence store.

Addresses, checksums and names come from the plan: the room `artefacts` resolves them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Literal

from components.acceptance.report.store import open_signer, open_store
from components.artefacts import listing, naming
from components.artefacts.lock import Entry, Lock
from components.artefacts.pin import Reach, chart_archive_of
from components.artefacts.registry import api_of
from components.artefacts.resolve import UNPINNED, resolved
from components.artefacts.web import FetchError, length_of, measure
from components.checks.site_files import refused_unpinned
from components.core.errors import RailyardError
from components.core.plain_text import has_placeholder
from components.core.problem import Finding
from components.core.record import record
from components.core.templates import read_table
from components.model.cluster import ClusterSpec
from components.model.sources import EvidenceStore, Registry
from components.preflight.report import lack
from components.project.engine import HERE

_FETCH_FIXES: Final[Mapping[str, str]] = read_table(__file__, "curl")
_NO_HEAD: Final = frozenset({"403", "405", "501"})
"""Answers to HEAD of a server that may serve the file to GET: it does not know HEAD, or the
address is signed, and a signature of S3 holds for one method."""
_IMAGES: Final = {"200": "", "401": "private-image", "403": "private-image", "404": "absent-image"}
"""A registry's answer to the finding."""


@record
class Artefact:
    """One file or image that hosts download, already have, or pull."""

    name: str
    """Unique in the site, without blanks."""
    kind: Literal["file", "image"]
    address: str
    """https address, absolute path on the hosts, or image name."""
    sha256: str = ""
    """Empty if neither the site nor its lock has it."""
    hosts: tuple[str, ...] = ()
    """Hosts that fetch it themselves; empty for an image."""
    plain_http: bool = False
    """The image's registry uses plain HTTP."""
    own: bool = False
    """The image is in the site's registry, with its CA and login."""

    @property
    def manifest(self) -> str:
        """Address of the manifest of an image."""
        image = naming.parse_image(self.address)
        reference = image.digest or image.tag or "latest"
        api = api_of(image.registry, insecure=self.plain_http)
        return f"{api}/{image.repository}/manifests/{reference}"


def artefacts_of(spec: ClusterSpec, lock: Lock) -> tuple[Artefact, ...]:
    """Return everything that hosts fetch, have or pull, without files that this machine sends."""
    site = resolved(spec, lock)
    sends = naming.sends_files(site.sources)
    files: list[Artefact] = []
    images: dict[str, Artefact] = {}
    for number, each in enumerate(listing.artefacts_of(site)):
        sent = naming.sent_digest(each.address) or (sends and not each.local)
        if each.kind == "file" and not sent:
            name = each.name if each.path[0] == "kubernetes" else f"driver-{number}"
            digest = "" if each.checksum == UNPINNED else each.checksum
            files.append(Artefact(name, "file", each.address, digest, _users(site, each)))
        elif each.kind == "image":
            named = {"image": each.path[-2], "chart": "network-device-plugin"}
            use = str(named.get(str(each.path[-1]), each.path[-1])).replace("_", "-")
            image = _image(site, use, each.name)
            images[image.address] = images.pop(image.address, image)
    for image in _of_charts(spec, lock):
        images[image.address] = images.pop(image.address, image)
    users: dict[tuple[str, str], list[str]] = {}
    for host in site.hosts:
        if (repository := site.settings_of(host).driver.repository) is not None:
            users.setdefault((repository.key, repository.key_sha256), []).append(host.name)
    for number, ((address, digest), hosts) in enumerate(users.items(), 1):
        files.append(Artefact(f"driver-key-{number}", "file", address, digest, tuple(hosts)))
    return (*files, *images.values())


def charts_without_images(spec: ClusterSpec, lock: Lock) -> tuple[listing.Artefact, ...]:
    """Return the charts with unknown images: `railyard pin` reads these into the lock."""
    charts = (each for each in listing.artefacts_of(spec) if each.kind == "chart")
    return tuple(each for each in charts if lock.find(each) is None)


def access_lines(registry: Registry | None, secrets: Mapping[str, str]) -> Iterator[str]:
    """Yield the script's stdin lines for the site's registry: its CA and login."""
    if registry is None:
        return
    if registry.ca is not None:
        yield f"trust registry {_encoded(registry.ca)}"
    if registry.login is not None and (password := secrets.get(registry.login.password.name)):
        text = f"{registry.login.user}:{password}".replace("\\", "\\\\").replace('"', '\\"')
        setting = f'user = "{text}"'
        yield f"login registry {_encoded(setting)}"


def _encoded(text: str) -> str:
    return base64.b64encode(f"{text}\n".encode()).decode()


def _users(site: ClusterSpec, found: listing.Artefact) -> tuple[str, ...]:
    """Return the hosts that fetch a file: nodes for a file of K3s, else those with its driver."""
    if found.path[0] != "kubernetes":
        drivers = {host.name: site.settings_of(host).driver.source for host in site.hosts}
        return tuple(name for name, source in drivers.items() if source == found.address)
    every = (listing.K3S_SCRIPT, listing.K3S_POLICY)
    nodes = (host for host in site.hosts if host.role in {"control_plane", "worker"})
    return tuple(
        host.name
        for host in nodes
        if (cpu := site.settings_of(host).architecture)
        and found.name in {*every, listing.k3s_binary_name(cpu), listing.k3s_images_name(cpu)}
    )


def _image(site: ClusterSpec, use: str, image: str) -> Artefact:
    """Return an image by the name under which this site pulls it."""
    registry, plane = site.sources.registry, site.kubernetes
    name = naming.in_registry(image, registry)
    host = naming.parse_image(name).registry
    own = registry is not None and naming.registry_host(registry) == host
    plain = own and registry is not None and registry.insecure
    mirror = plane.registry_mirror if plane is not None else None
    return Artefact(f"image-{use}", "image", name, plain_http=plain or mirror == host, own=own)


def _of_charts(spec: ClusterSpec, lock: Lock) -> Iterator[Artefact]:
    """Yield the images that locked charts use, as the charts' values will name them."""
    known = {entry.address: entry for entry in lock.entries.values() if entry.kind == "image"}
    for chart in listing.artefacts_of(spec):
        entry = lock.find(chart) if chart.kind == "chart" else None
        for path, image in sorted(entry.images.items()) if entry else ():
            name = str(naming.parse_image(image))
            digest = f"@{known[name].digest}" if name in known else ""
            yield _image(spec, f"{chart.name}-{path.partition('#')[0]}", f"{name}{digest}")


def judge_artefacts(
    device: str, artefacts: Iterable[Artefact], facts: Mapping[str, str]
) -> Iterator[Finding]:
    """Judge the files that a host fetches itself, and the images that it pulls."""
    for each in artefacts:
        key = "image" if each.kind == "image" else "sum" if each.sha256 else "reach"
        says = facts.get(f"{key}.{each.name}")
        if not says or (each.name == listing.K3S_POLICY and "selinux" not in facts):
            continue  # a node without SELinux does not fetch K3s' policy
        shown, fix = says, ""
        if says.startswith("failed "):
            # With curl's status and words: `failed 60 curl: (60) SSL certificate problem`.
            _, status, *words = says.split(" ", 2)
            fix = _FETCH_FIXES.get(status, "open the way to it: firewall, proxy, route")
            shown = "".join(words) or says
        elif key == "reach" and says >= "400" and says not in _NO_HEAD:
            shown, fix = f"the server answers {says}", _FETCH_FIXES["22"]
        if each.kind == "image":
            row = _IMAGES.get(says, "image" if fix else "broken-image")
        elif says == "absent":
            row = "absent-file"
        else:
            row = "file" if fix else "" if each.sha256 in {"", says} else "other-file"
        if row:  # else all is well
            words = {"name": each.name, "address": each.address, "wanted": each.sha256 or "there"}
            yield lack(device, row, shown, **words, fix=fix)


def fetched_here(reach: Reach) -> tuple[listing.Artefact, ...]:
    """Return a site's charts, and its files if hosts get them over SSH or cannot be asked yet."""
    sources, hosts = reach.spec.sources, reach.spec.hosts
    kinds = {"chart", "file"} if naming.sends_files(sources) else {"chart"}
    if hosts and all(host.ssh is None or has_placeholder(host.ssh.address) for host in hosts):
        kinds = {"chart", "file", "image"}

    def is_asked(each: listing.Artefact) -> bool:
        remote = each.kind == "image" or sources.bundle is None
        return each.kind in kinds and (each.kind == "chart" if each.local else remote)

    return tuple(filter(is_asked, listing.artefacts_of(reach.spec)))


def judge_pins(spec: ClusterSpec, lock: Lock, *, lab: bool) -> tuple[Finding, ...]:
    """Report artefacts without a checksum, which an update would refuse."""
    unpinned = refused_unpinned(spec, lock, lab=lab)
    if not unpinned:
        return ()
    names = ", ".join(each.name for each in unpinned.artefacts)
    return (lack(HERE, "unpinned", names, fix=unpinned.fix),)


def look_here(
    reach: Reach, found: listing.Artefact, lock: Lock, project: Path
) -> tuple[Finding, ...]:
    """Check from this machine that a chart or file exists and matches its checksum."""
    name = f"artefact-{found.name}"
    if found.kind == "chart":
        name = f"chart-{found.path[1]}"
    elif found.kind == "image":
        name = f"image-{found.path[-2] if found.path[-1] == 'image' else found.path[-1]}"
    # The name of an image has its version already.
    version = "" if found.name.endswith(found.version) else f" {found.version}"
    find = partial(lack, HERE, name=name.replace(" ", "-"), shown=f"{found.name}{version}")
    folder, entry = project / found.address, lock.find(found)
    if found.local:
        lacks = find("local-chart", "absent", address=found.address, wanted=folder)
        return () if folder.exists() else (lacks,)
    try:
        digest = _digest(reach, found, entry)
    except FetchError as error:
        return (find("unfetched", f"{error.address}: {error.what}", fix=error.fix),)
    wanted = found.checksum or (entry.sha256 if entry else digest)
    if digest == wanted:
        return ()
    row = "other-in-site" if found.checksum else "other-in-lock"
    return (find(row, digest, wanted=wanted, artefact=found.name),)


def _digest(reach: Reach, found: listing.Artefact, entry: Entry | None) -> str:
    """Return the digest of the served artefact; an unpinned file is only checked to exist.

    An image is the one that nodes will pull; a locked one is requested by digest.
    """
    if found.kind == "chart":
        return chart_archive_of(reach, found)[1]
    if found.kind == "image":
        image = reach.image(found.address)
        wanted = image.digest or (entry.digest if entry else image.tag)
        manifest = reach.registry(str(image)).manifest(image.repository, wanted)
        return manifest.digest.removeprefix("sha256:")
    address = reach.address(found.address)
    if entry is None and not found.checksum:
        length_of(address, reach.web(address))
        return ""
    return measure(address, reach.web(address))[0]


def look_at_store(
    store: EvidenceStore | None, stack: str, secrets: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Check the signing key, and list the store's runs; preflight reports missing secrets apart."""
    if store is None or {store.signing_key.name} - secrets.keys():
        return ()
    try:
        open_signer(store, secrets)
        open_store(store, secrets).runs(stack)
    except RailyardError as error:
        actual, _, fix = str(error).rpartition("\n  fix    ")
        shown = actual.splitlines()[0]
        return (lack(HERE, "evidence-store", shown, address=store.address, fix=fix),)
    return ()
