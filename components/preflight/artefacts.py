"""List what hosts and this machine fetch, and judge whether they can; check the evidence store.

Addresses, checksums and names come from the plan: the room `artefacts` resolves them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from components.acceptance.report.store import open_signer, open_store
from components.artefacts import listing
from components.artefacts.lock import Entry, Lock
from components.artefacts.naming import (
    in_registry,
    parse_image,
    registry_host,
    sends_files,
    sent_digest,
)
from components.artefacts.pin import Reach, chart_archive_of
from components.artefacts.registry import api_of
from components.artefacts.resolve import UNPINNED, resolved
from components.artefacts.web import FetchError, length_of, measure
from components.checks.site_files import refused_unpinned
from components.core.errors import RailyardError
from components.core.plain_text import has_placeholder
from components.core.problem import Finding, SpecPath, on_device
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.sources import EvidenceStore, Registry
from components.project.engine import HERE


@dataclass(frozen=True, slots=True)
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
        image = parse_image(self.address)
        reference = image.digest or image.tag or "latest"
        api = api_of(image.registry, insecure=self.plain_http)
        return f"{api}/{image.repository}/manifests/{reference}"


def artefacts_of(spec: ClusterSpec, lock: Lock) -> tuple[Artefact, ...]:
    """Return everything that hosts fetch, have or pull, without files that this machine sends."""
    site = resolved(spec, lock)
    found = listing.artefacts_of(site)
    sends = sends_files(site.sources)
    files = (
        _file(site, each, number)
        for number, each in enumerate(found)
        if each.kind == "file" and (each.local or not sends)
    )
    named = (_image(site, each) for each in found if each.kind == "image")
    pulled = (*named, *_of_charts(spec, lock))
    images = {each.address: each for each in reversed(pulled)}
    sent = (each for each in files if not sent_digest(each.address))
    return (*sent, *_keys(site), *reversed(images.values()))


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


def _file(site: ClusterSpec, found: listing.Artefact, number: int) -> Artefact:
    plane = found.path[0] == "kubernetes"
    users = tuple(
        host.name
        for host in site.hosts
        if (_runs(site, host, found.name) if plane else _installs(site, host, found.address))
    )
    checksum = "" if found.checksum == UNPINNED else found.checksum
    name = found.name if plane else f"driver-{number}"
    return Artefact(name, "file", found.address, checksum, users)


def _runs(site: ClusterSpec, host: Host, name: str) -> bool:
    cpu = site.settings_of(host).architecture
    mine = {listing.K3S_SCRIPT, listing.k3s_binary_name(cpu), listing.k3s_images_name(cpu)}
    mine.add(listing.K3S_POLICY)
    return host.role in {"control_plane", "worker"} and name in mine


def _installs(site: ClusterSpec, host: Host, source: str) -> bool:
    return site.settings_of(host).driver.source == source


def _keys(site: ClusterSpec) -> Iterator[Artefact]:
    """Yield the signing keys of driver repositories."""
    users: dict[tuple[str, str], list[str]] = {}
    for host in site.hosts:
        if (repository := site.settings_of(host).driver.repository) is not None:
            users.setdefault((repository.key, repository.key_sha256), []).append(host.name)
    for number, ((address, digest), hosts) in enumerate(users.items(), 1):
        yield Artefact(f"driver-key-{number}", "file", address, digest, tuple(hosts))


def _image(site: ClusterSpec, found: listing.Artefact) -> Artefact:
    name = in_registry(found.name, site.sources.registry)
    return _named(site, f"image-{_use(found.path)}", name)


def _named(site: ClusterSpec, use: str, name: str) -> Artefact:
    """Return an image by the name under which this site pulls it."""
    registry, plane = site.sources.registry, site.kubernetes
    host = parse_image(name).registry
    own = registry is not None and registry_host(registry) == host
    plain = own and registry is not None and registry.insecure
    mirror = plane.registry_mirror if plane is not None else None
    return Artefact(use, "image", name, plain_http=plain or mirror == host, own=own)


def _of_charts(spec: ClusterSpec, lock: Lock) -> Iterator[Artefact]:
    """Yield the images that locked charts use, as the charts' values will name them."""
    known = {entry.address: entry for entry in lock.entries.values() if entry.kind == "image"}
    for chart in listing.artefacts_of(spec):
        entry = lock.find(chart) if chart.kind == "chart" else None
        for path, image in sorted(entry.images.items()) if entry else ():
            name = str(parse_image(image))
            digest = f"@{known[name].digest}" if name in known else ""
            used = f"{chart.name}-{path.partition('#')[0]}"
            yield _named(
                spec, f"image-{used}", in_registry(f"{name}{digest}", spec.sources.registry)
            )


def _use(path: SpecPath) -> str:
    """Return an image's purpose, from its place in the site."""
    named = {"image": path[-2], "chart": "network-device-plugin"}
    return str(named.get(str(path[-1]), path[-1])).replace("_", "-")


def fetch_fix(says: str) -> str:
    """Return a fix for curl's exit status (curl(1), EXIT CODES)."""
    code = says.split()[1]
    return {
        "5": "correct the proxy of the host: its name is not resolved",
        "6": "correct the name, or the host's DNS",
        "22": "correct the address: the server answers with an error",
        "28": "open the way to it, or give the host a proxy",
        "35": "a proxy in between breaks TLS: let it pass this address, or trust its CA",
        "56": "a proxy in between refuses it: give the host the proxy's address and login",
        "60": "trust the CA that signed its certificate (update-ca-certificates); a proxy in"
        " between may have replaced it",
        "77": "install ca-certificates",
    }.get(code, "open the way to it: firewall, proxy, route")


def in_words(says: str) -> str:
    """Return curl's message without the status that the script adds."""
    return says.removeprefix("failed ").partition(" ")[2] or says if " " in says else says


Words = tuple[str, str, str, str, str]
"""Parts of a finding: cause, fault, actual value, wanted value, and fix."""
LATER: Final = "then run `railyard preflight` again"


def judge_files(files: tuple[Artefact, ...], facts: Mapping[str, str]) -> Iterator[Words]:
    """Judge the files that a host fetches itself."""
    for each in files:
        if each.name == listing.K3S_POLICY and "selinux" not in facts:
            continue  # a node without SELinux does not fetch it
        for key in ("sum", "reach"):
            if says := facts.get(f"{key}.{each.name}"):
                yield from _source(each, key, says)


def _source(artefact: Artefact, key: str, says: str) -> Iterator[Words]:
    cause = f"artefact-{artefact.name}"
    if says == "absent":
        what = f"the host lacks {artefact.address}."
        fix = f"copy it there, {LATER}; or name an https address that the host reaches"
        yield cause, what, "absent", artefact.sha256 or "there", fix
    elif says.startswith("failed "):
        what = f"{artefact.address} cannot be fetched from the host."
        yield cause, what, in_words(says), "an answer", fetch_fix(says)
    elif key == "sum" and says != artefact.sha256:
        what = f"{artefact.address} has another checksum than the site."
        fix = "take the file that the checksum was made of, or write the checksum of this one"
        yield cause, what, says, artefact.sha256, fix


def judge_images(images: tuple[Artefact, ...], facts: Mapping[str, str]) -> Iterator[Words]:
    """Report images that a host cannot pull."""
    for image in images:
        says = facts.get(f"image.{image.name}")
        if says and says != "200":
            what, fix = _pull_words(image, says)
            yield image.name, what, in_words(says), "200", fix


def _pull_words(image: Artefact, says: str) -> tuple[str, str]:
    name = image.address
    if says in {"401", "403"}:
        what = f"the registry of {name} wants a login, or does not serve this image without one."
        return what, "give the hosts a login for it, or use a registry without login"
    if says == "404":
        return f"the registry lacks the image {name}.", "push it there, or correct its name and tag"
    if says.startswith("failed "):
        return f"the registry of {name} cannot be reached from the host.", fetch_fix(says)
    return f"the registry answers a pull of {name} with an error.", "look at the registry"


def fetched_here(reach: Reach) -> tuple[listing.Artefact, ...]:
    """Return a site's charts, and its files if hosts get them over SSH.

    If the update creates all hosts, or they have no login, they cannot be asked what they can
    download, so this machine checks instead. `check` already reports missing parts of a bundle.
    """
    sources, hosts = reach.spec.sources, reach.spec.hosts
    kinds = {"chart", "file"} if sends_files(sources) else {"chart"}
    if hosts and all(host.ssh is None or has_placeholder(host.ssh.address) for host in hosts):
        kinds = {"chart", "file", "image"}
    found = (each for each in listing.artefacts_of(reach.spec) if each.kind in kinds)
    return tuple(each for each in found if _is_asked(each, bundled=sources.bundle is not None))


def _is_asked(found: listing.Artefact, *, bundled: bool) -> bool:
    if found.local:
        return found.kind == "chart"
    return found.kind == "image" or not bundled


def judge_pins(spec: ClusterSpec, lock: Lock, *, lab: bool) -> tuple[Finding, ...]:
    """Report artefacts without a checksum, which an update would refuse."""
    unpinned = refused_unpinned(spec, lock, lab=lab)
    if not unpinned:
        return ()
    names = ", ".join(each.name for each in unpinned.artefacts)
    what = "not everything that the site brings has a checksum, and an update refuses that."
    return (on_device(HERE, "unpinned", what, names, "all pinned", unpinned.fix),)


def look_here(
    reach: Reach, found: listing.Artefact, lock: Lock, project: Path
) -> tuple[Finding, ...]:
    """Check from this machine that a chart or file exists and matches its checksum."""
    if found.local:
        folder = project / found.address
        if folder.exists():
            return ()
        what = f"the project lacks the chart {found.address}."
        fix = "leave chart and repo out for upstream's own, or put the chart there"
        return (_lack(found, what, "absent", str(folder), fix),)
    entry = lock.find(found)
    try:
        digest = _digest(reach, found, entry)
    except FetchError as error:
        what = f"{_versioned(found)} cannot be fetched from this machine."
        return (_lack(found, what, f"{error.address}: {error.what}", "an answer", error.fix),)
    wanted = found.checksum or (entry.sha256 if entry else digest)
    if digest == wanted:
        return ()
    by = "site" if found.checksum else "lock"
    what = f"upstream serves another {_versioned(found)} than the {by} names."
    fix = f"see why upstream changed it; `railyard pin SITE --update {found.name}` takes it over"
    if found.checksum:
        fix = (
            "see why upstream changed it; if the change is right, correct the checksum in the site"
        )
    return (_lack(found, what, digest, wanted, fix),)


def _versioned(found: listing.Artefact) -> str:
    """Return the name with its version, which an image's name already has."""
    return found.name if found.name.endswith(found.version) else f"{found.name} {found.version}"


def _digest(reach: Reach, found: listing.Artefact, entry: Entry | None) -> str:
    """Return the digest of the served artefact; an unpinned file is only checked to exist."""
    if found.kind == "chart":
        return chart_archive_of(reach, found)[1]
    if found.kind == "image":
        return _image_digest(reach, found, entry)
    address = reach.address(found.address)
    if entry is None and not found.checksum:
        length_of(address, reach.web(address))
        return ""
    return measure(address, reach.web(address))[0]


def _image_digest(reach: Reach, found: listing.Artefact, entry: Entry | None) -> str:
    """Return the digest of the image that nodes will pull; a locked one is requested by digest."""
    image = parse_image(reach.image(str(parse_image(found.address))))
    wanted = image.digest or (entry.digest if entry else image.tag)
    manifest = reach.registry(str(image)).manifest(image.repository, wanted)
    return manifest.digest.removeprefix("sha256:")


def _lack(found: listing.Artefact, what: str, actual: str, wanted: str, fix: str) -> Finding:
    if found.kind == "chart":
        cause = f"chart-{found.path[1]}"
    elif found.kind == "image":
        cause = f"image-{found.path[-1] if found.path[-1] != 'image' else found.path[-2]}"
    else:
        cause = f"artefact-{found.name}"
    return on_device(HERE, cause.replace(" ", "-"), what, actual, wanted, fix)


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
        what = "acceptance cannot share its evidence."
        wanted = f"a list of the runs in {store.address}"
        return (on_device(HERE, "evidence-store", what, actual.splitlines()[0], wanted, fix),)
    return ()
