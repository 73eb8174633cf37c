"""`railyard pin`: ask each source for its content now, and record the digests.

For a Helm chart: a repository's index, a registry's chart, and the images that a chart names.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from http import HTTPStatus
from typing import Final, Literal, cast
from urllib.parse import urljoin

import yaml

from components.artefacts import listing, naming
from components.artefacts.lock import Entry, Lock
from components.artefacts.registry import HELM_CHART, RegistryClient, find_image
from components.artefacts.resolve import merged
from components.artefacts.web import (
    Access,
    FetchError,
    Login,
    WrongContentError,
    fetch,
    fetch_error,
    length_of,
    measure,
    wrong_checksum,
)
from components.core.errors import Bug
from components.core.problem import Json
from components.core.record import field, record, replace
from components.core.templates import LOADER
from components.model.cluster import ClusterSpec
from components.model.jobs import DOCKER_HUB, RegistryLogin, registry_of
from components.model.operators import ChartSource, ChartValues

_V_BEFORE: Final = frozenset({"nvidia-device-plugin"})
"""Charts whose default tag is `v` and the chart's `appVersion` (its templates/_helpers.tpl)."""
_COMPLETED: Final = frozenset({"driver#image", "gds#image", "gdrcopy#image", "vgpuManager#image"})
"""Images without a full tag: the GPU operator adds each host's release, such as `-ubuntu22.04`.

The tags of nvidia/driver in NGC's catalogue show this; without that part they name no image.
"""
_DEEPEST: Final = 6
"""Levels of values to search for images; NVIDIA's charts use four."""
AT_ONCE: Final = 8
"""Connections at a time: with more, public registries begin to refuse."""
State = Literal["pinned", "unchanged", "changed", "failed", "in the site", "on the hosts"]


def find_in_index(source: ChartSource, access: Access, at: str) -> tuple[str, str]:
    """Look up a chart and its release, with or without a `v`: its address and its digest, if any.

    Addresses in the index are below the repository of `source`; `at` is where to fetch the index:
    that repository, or its copy in a mirror.
    """
    chart, version = source.chart, source.version
    index = f"{at.rstrip('/')}/index.yaml"
    text = fetch(index, access)
    try:
        found = cast("Mapping[str, Json]", yaml.load(text, LOADER))  # noqa: S506 - a safe loader
        entries = cast("Mapping[str, list[Mapping[str, Json]]]", found["entries"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise fetch_error(index, "no-index") from error
    releases = entries.get(chart)
    if not releases:
        raise fetch_error(index, "no-chart", chart=chart, names=", ".join(sorted(entries)[:8]))
    wanted = version.removeprefix("v")
    for each in releases:
        urls = cast("list[str]", each.get("urls") or [])
        if str(each.get("version")).removeprefix("v") == wanted and urls:
            digest = str(each.get("digest") or "").removeprefix("sha256:")
            return urljoin(f"{(source.repo or '').rstrip('/')}/", urls[0]), digest
    have = ", ".join(str(each.get("version")) for each in releases[:5])
    raise fetch_error(index, "no-chart-release", chart=chart, version=version, have=have)


def images_of_chart(archive: bytes, chart: str, ours: ChartValues) -> dict[str, str]:
    """The images that a chart's values name, those of its sub-charts included.

    A chart names an image by `repository`, `image` and `version`, as NVIDIA's operators do, or by
    `repository` and `tag`. If the release is empty, the chart's `appVersion` is used. Images of
    parts with `enabled: false` are left out, and so are those whose tag only a host completes.

    Returns the path in the values, with `#image` or `#tag` for the form, to the image. `ours` are
    the values that Railyard sets for the chart.
    """
    try:
        files: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
            for member in packed:
                base = member.name.rpartition("/")[2]
                if base in {"Chart.yaml", "values.yaml"} and member.isfile():
                    file = packed.extractfile(member)
                    files[member.name] = file.read() if file else b""
        top = min((name for name in files if name.endswith("/Chart.yaml")), key=len)
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise WrongContentError(
            chart, "it is not an archive of a chart", "see what serves it"
        ) from error
    folder = top.removesuffix("Chart.yaml")
    found = _in_chart(files, folder, ours)
    return {path: image for path, image in found if path not in _COMPLETED}


def _in_chart(
    files: Mapping[str, bytes], folder: str, over: ChartValues
) -> Iterator[tuple[str, str]]:
    described = _mapping(files.get(f"{folder}Chart.yaml", b""))
    values = merged(_mapping(files.get(f"{folder}values.yaml", b"")), over)
    release = str(described.get("appVersion") or described.get("version") or "")
    release = f"v{release}" if described.get("name") in _V_BEFORE else release
    depends = described.get("dependencies")
    names = {
        str(each.get("alias") or each.get("name")): str(each.get("condition") or "")
        for each in (depends if isinstance(depends, list) else [])
        if isinstance(each, dict)
    }
    own = {key: value for key, value in values.items() if key not in names}
    yield from _in_values(own, (), release)
    for name, condition in names.items():
        if any(_at(values, one.strip().split(".")) is False for one in condition.split(",")):
            continue
        below = values.get(name)
        inner = below if isinstance(below, dict) else {}
        for path, image in _in_chart(files, f"{folder}charts/{name}/", inner):
            yield f"{name}.{path}", image


def _at(values: ChartValues, keys: Sequence[str]) -> Json:
    found: Json = values
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _in_values(
    values: Mapping[str, Json], path: tuple[str, ...], release: str
) -> Iterator[tuple[str, str]]:
    if values.get("enabled") is False or len(path) > _DEEPEST:
        return
    repository = values.get("repository")
    if isinstance(repository, str) and repository:
        image, form = values.get("image"), ".".join(path)
        if isinstance(image, str) and image:
            tag = str(values.get("version") or release)
            yield f"{form}#image", _join(f"{repository}/{image}", tag)
        elif "tag" in values:
            yield f"{form}#tag", _join(repository, str(values["tag"] or release))
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _in_values(value, (*path, key), release)


def _join(name: str, version: str) -> str:
    return f"{name}@{version}" if version.startswith("sha256:") else f"{name}:{version}"


def _mapping(text: bytes) -> ChartValues:
    found: object = yaml.load(text, LOADER) if text else {}  # noqa: S506 - a safe loader
    return cast("ChartValues", found) if isinstance(found, dict) else {}


@record
class Reach:
    """How this machine reaches a site's sources."""

    spec: ClusterSpec
    secrets: Mapping[str, str] = field(repr=False)
    upstream: bool = False
    """Ask upstream itself, even if the site has a mirror or a registry."""
    logins: Mapping[str, Login] = field(default_factory=dict[str, Login], repr=False)
    """Registry to a login of this machine, as Docker keeps them."""
    values: Mapping[str, ChartValues] = field(default_factory=dict[str, ChartValues])
    """Helm release to the values that the plan sets: they switch parts of a chart off."""

    def address(self, upstream: str) -> str:
        """The address to fetch for an upstream https address."""
        return upstream if self.upstream else naming.mirrored(upstream, self.spec.sources.mirror)

    def web(self, address: str) -> Access:
        """Certificates and login for the server of an address."""
        mirror = self.spec.sources.mirror
        if self.upstream or mirror is None or not address.startswith(mirror.url.rstrip("/")):
            return Access()
        return Access(mirror.ca, self._login(mirror.login))

    def image(self, name: str) -> naming.ImageReference:
        """The image to ask for, with its whole name."""
        whole = str(naming.parse_image(name))
        asked = whole if self.upstream else naming.in_registry(whole, self.spec.sources.registry)
        return naming.parse_image(asked)

    def registry(self, image: str) -> RegistryClient:
        """A client for the registry of an image."""
        host = registry_of(image)
        ours = self.spec.sources.registry
        if ours is not None and naming.registry_host(ours) == host:
            login = self._login(ours.login) or self.logins.get(host)
            return RegistryClient(host, Access(ours.ca, login, ours.insecure))
        plane, containers = self.spec.kubernetes, self.spec.containers
        insecure = plane is not None and plane.registry_mirror == host
        own = [(containers.image, containers.login)] if containers else []
        if containers and (build := containers.build):
            own.append((build.base, build.login))
        written = (self._login(each) for name, each in own if registry_of(name) == host)
        login = next(filter(None, written), None)
        login = login or self.logins.get("index.docker.io" if host == DOCKER_HUB else host)
        return RegistryClient(host, Access(None, login, insecure))

    def _login(self, login: RegistryLogin | None) -> Login | None:
        if login is None:
            return None
        return Login(login.user, self.secrets.get(login.password.name, ""))


@record
class Pinned:
    """The outcome for one artefact."""

    artefact: listing.Artefact
    state: State
    entry: Entry | None = None
    """The content that the source serves now."""
    before: Entry | None = None
    """The entry in the lock; it stays unless `update` names it."""
    error: FetchError | None = None


def pin_site(
    reach: Reach, lock: Lock, today: date, update: Sequence[str] = ()
) -> tuple[Pinned, ...]:
    """Resolve every artefact of a site; each failure is a separate outcome.

    New entries get the day `today`. `update` names artefacts to accept with changed content; `all`
    means every one.
    """
    ask = partial(_pin, reach, lock, today)
    artefacts = listing.artefacts_of(reach.spec)
    known = {artefact.address for artefact in artefacts}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        first = [*pool.map(ask, artefacts)]
        named = {
            image: found.artefact.path
            for found in first
            for image in (found.entry.images.values() if found.entry else ())
            if str(naming.parse_image(image)) not in known
        }
        brought = (listing.image_artefact(image, "cluster", path) for image, path in named.items())
        second = [*pool.map(ask, brought)]
    done: list[Pinned] = []
    for found in (*first, *second):  # decide whether the served content goes into the lock
        wanted = {found.artefact.name, found.artefact.name.rpartition(":")[0], "all"}
        if found.entry is None or found.before is None:
            done.append(found)
        elif found.entry.sha256 == found.before.sha256:
            done.append(replace(found, state="unchanged", entry=found.before))
        else:
            state = "pinned" if wanted & set(update) else "changed"
            done.append(replace(found, state=state))
    return tuple(done)


def _pin(reach: Reach, lock: Lock, today: date, artefact: listing.Artefact) -> Pinned:
    if artefact.local:
        return Pinned(artefact, "on the hosts" if artefact.used_on == "hosts" else "in the site")
    if artefact.kind == "repository":
        return Pinned(artefact, "in the site")
    try:
        address, images = reach.address(artefact.address), dict[str, str]()
        if artefact.kind == "file":
            # From its publisher's list; without a list, from the file itself.
            sha256, access = _published(reach, artefact), reach.web(address)
            sha256, size = (
                (sha256, length_of(address, access)) if sha256 else measure(address, access)
            )
        elif artefact.kind == "chart":
            body, sha256 = chart_archive_of(reach, artefact)
            size, values = len(body), reach.values.get(artefact.name, {})
            images = images_of_chart(body, artefact.address, values)
        else:
            image = reach.image(artefact.address)
            client, cpus = reach.registry(str(image)), listing.architectures(reach.spec)
            top = find_image(client, image, cpus)
            sha256, size = top.manifest.digest.removeprefix("sha256:"), top.size
        entry = Entry(
            name=artefact.name, kind=artefact.kind, address=artefact.address,
            version=artefact.version, sha256=sha256, size=size, pinned=today, images=images,
        )  # fmt: skip
        if artefact.checksum and artefact.checksum != entry.sha256:
            raise wrong_checksum(artefact.address, entry.sha256, artefact.checksum)
    except FetchError as error:
        return Pinned(artefact, "failed", error=error)
    if artefact.checksum:
        return Pinned(artefact, "in the site")
    return Pinned(artefact, "pinned", entry, lock.find(artefact))


def _published(reach: Reach, artefact: listing.Artefact) -> str:
    """The checksum in a list of `sha256sum`; empty without a list, or if a mirror lacks it."""
    if not artefact.published:
        return ""
    address = reach.address(artefact.published)
    try:
        lines = fetch(address, reach.web(address)).decode(errors="replace").splitlines()
    except FetchError as error:
        if error.status == HTTPStatus.NOT_FOUND and address != artefact.published:
            return ""
        raise
    name = artefact.address.rpartition("/")[2]
    for line in lines:
        digest, _, file = line.partition(" ")
        if file.strip().lstrip("*") == name:
            return digest
    raise FetchError(address, f"the list lacks {name}", "correct kubernetes.version")


def chart_archive_of(reach: Reach, artefact: listing.Artefact) -> tuple[bytes, str]:
    """Fetch a chart, and compare it with its repository's index; its bytes and their SHA-256."""
    if artefact.address.startswith("oci://"):
        name = f"{artefact.address.removeprefix('oci://')}:{artefact.version.replace('+', '_')}"
        image = reach.image(name)
        client = reach.registry(str(image))
        layers = client.manifest(image.repository, image.tag).data.get("layers", [])
        charts = [each for each in layers if each["mediaType"] == HELM_CHART]
        if len(charts) != 1:
            raise WrongContentError(str(image), "it is not a Helm chart", "correct the address")
        body = client.blob(image.repository, charts[0]["digest"])
        return body, hashlib.sha256(body).hexdigest()
    _, source, _ = listing.charts_by_release(reach.spec)[artefact.name]
    if source.repo is None:
        raise Bug(f"the chart {artefact.address} lacks a repository")
    at = reach.address(source.repo)
    listed, wanted = find_in_index(source, reach.web(at), at)
    address = reach.address(listed)
    body = fetch(address, reach.web(address))
    found = hashlib.sha256(body).hexdigest()
    if wanted and wanted != found:
        raise wrong_checksum(address, found, wanted)
    return body, found
