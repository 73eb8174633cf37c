"""`resolved`: the site with every source written out, from the lock, the mirror and the registry.

The rooms that plan read addresses, checksums and names from the spec. They know neither a lock nor
a mirror. Resolving twice changes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeVar, cast

from pydantic import BaseModel, JsonValue

from components.artefacts import listing
from components.artefacts.lock import Entry, Lock
from components.artefacts.naming import host_file, in_registry, mirrored, sends_files, sent_digest
from components.model.cards import DriverPackage
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.jobs import registry_of
from components.model.kubernetes import K3sSource
from components.model.once import once
from components.model.operators import ChartValues

UNPINNED: Final = "unpinned"
"""Placeholder for a checksum that neither the site nor its lock has.

No file has this checksum, so a host refuses any content.
"""
CHARTS_FOLDER: Final = ".railyard/charts"
"""Relative to the program's directory; the Helm library reads an archive from there."""
PULL_SECRET: Final = "railyard-registry"  # noqa: S105 - the name of a secret, not one
_Spec = TypeVar("_Spec", bound=BaseModel)


def resolved(spec: ClusterSpec, lock: Lock) -> ClusterSpec:
    """The site with the sources of all its artefacts.

    Files and charts get the address from which they are fetched and their checksum; images get
    their name in the site's registry and their digest.
    """
    pull = partial(_pulled, spec, lock)
    written = cast("dict[str, str]", spec.sources.images.model_dump())
    pulled = {key: pull(image) for key, image in written.items()}
    if (sample := spec.jobs.deepspeed) is not None:
        sample = _with(sample, image=pull(sample.image))
    network = spec.pod_network
    changes: dict[str, object] = {
        "operators": _operators(spec, lock),
        "sources": _with(spec.sources, images=_with(spec.sources.images, **pulled)),
        "jobs": _with(spec.jobs, image=pull(spec.jobs.image), deepspeed=sample),
        "pod_network": _with(network, shared_plugin=pull(network.shared_plugin)),
        "host_defaults": _with(spec.host_defaults, driver=_driver(spec, spec.host_defaults.driver)),
        "host_groups": tuple(
            _with(group, driver=group.driver and _driver(spec, group.driver))
            for group in spec.host_groups
        ),
    }
    if spec.watch is not None:
        changes["watch"] = _with(spec.watch, image=pull(spec.watch.image))
    if spec.k3s is not None:
        changes["kubernetes"] = _with(spec.k3s, source=_k3s(spec, lock))
    if (containers := spec.containers) is not None:
        build = containers.build
        if build is None:
            own = _with(containers, image=pull(containers.image))
        else:
            base = pull(build.base)
            # The site's registry does not take the login of the base's own registry.
            login = build.login if registry_of(base) == registry_of(build.base) else None
            own = _with(containers, build=_with(build, base=base, login=login))
        changes["containers"] = own
    return spec.model_copy(update=changes)


def _with(value: _Spec, **changes: object) -> _Spec:
    return value.model_copy(update=changes)


@once
def k3s_source(spec: ClusterSpec) -> K3sSource:
    """Sources of K3s' files, with every address; a resolved site keeps its own."""
    return _k3s(spec, Lock())


def _k3s(spec: ClusterSpec, lock: Lock) -> K3sSource:
    found: dict[str, object] = {}
    for each in listing.artefacts_of(spec):
        if each.path[:2] == ("kubernetes", "source"):
            key = each.path[2]
            checksum, address = lock.digest_of(each) or UNPINNED, each.address
            if sends_files(spec.sources) and checksum != UNPINNED and not each.local:
                address = host_file(checksum, address)
            elif not each.local:
                address = mirrored(address, spec.sources.mirror)
            found[f"{key}"], found[f"{key}_sha256"] = address, checksum
    return K3sSource().model_copy(update=found)


def sent_files(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The files that a host of a resolved site gets over SSH: SHA-256 to name."""
    places: list[str | None] = [spec.settings_of(host).driver.source] if host.nics else []
    if spec.k3s is not None and host.role != "balancer":
        source, architecture = k3s_source(spec), spec.settings_of(host).architecture
        keys = (listing.k3s_key("binary", architecture), listing.k3s_key("images", architecture))
        places += [getattr(source, key) for key in (*keys, "install_script", "selinux_policy")]
    found = ((sent_digest(place), place) for place in places if place)
    return {digest: place.rpartition("/")[2] for digest, place in found if digest}


def _driver(spec: ClusterSpec, driver: DriverPackage) -> DriverPackage:
    if driver.source is None or not driver.source.startswith("https://"):
        return driver
    if sends_files(spec.sources) and driver.sha256:
        return _with(driver, source=host_file(driver.sha256, driver.source))
    return _with(driver, source=mirrored(driver.source, spec.sources.mirror))


def _pulled(spec: ClusterSpec, lock: Lock, image: str) -> str:
    """The name under which an image is pulled: in the site's registry, at the lock's digest."""
    entry = lock.find(listing.image_artefact(image, "cluster", ()))
    name = f"{image}@{entry.digest}" if entry and "@" not in image else image
    return in_registry(name, spec.sources.registry)


def _operators(spec: ClusterSpec, lock: Lock) -> BaseModel:
    charts = {each.name: each for each in listing.artefacts_of(spec) if each.kind == "chart"}
    found: dict[str, object] = {}
    for release, (owner, source, place) in listing.charts_by_release(spec).items():
        entry = lock.find(charts[release])
        if entry is not None:
            registry, values = spec.sources.registry, ChartValues()
            # A chart names an image by `repository`, `image` and `version`, or by `repository` and
            # `tag` (its values.yaml): `repository` is the folder in the first form, the image in
            # the second.
            for path, image in sorted(entry.images.items()):
                joined, _, form = path.rpartition("#")
                keys = joined.split(".")
                if registry is not None and registry.login is not None:
                    # A name beside the image, or a reference at the top of its chart, maybe a
                    # sub-chart.
                    named = form == "image"
                    secret: JsonValue = PULL_SECRET if named else {"name": PULL_SECRET}
                    secrets: ChartValues = {"imagePullSecrets": [secret]}
                    values = merged(values, _below(keys if named else keys[:-1], secrets))
                own = _chart_image(_pulled(spec, lock, image), form, keys[-1])
                values = merged(values, _below(keys, own))
            archive = _with(source, chart=chart_archive(entry), repo=None)
            values = merged(values, owner.values)
            found[str(place[1])] = _with(owner, chart=archive, values=values)
        elif source.repo is not None:
            upstream = _with(source, repo=mirrored(source.repo, spec.sources.mirror))
            found[str(place[1])] = _with(owner, chart=upstream)
    return _with(spec.operators, **found)


def chart_archive(entry: Entry) -> str:
    """The path of a chart's archive in the project; another archive gets another path."""
    return f"{CHARTS_FOLDER}/{entry.name}-{entry.version}-{entry.sha256[:12]}.tgz"


def _chart_image(pulled: str, form: str, owner: str) -> ChartValues:
    """One image in a chart's values, with `TAG@DIGEST` in place of its tag.

    The values do not give a release for an operator's own image. Its chart takes `version` (GPU
    operator) or `tag` (network operator), each in its templates/operator.yaml.
    """
    name, at, digest = pulled.partition("@")
    base, _, tag = name.rpartition(":")
    keys = ("tag",) if form == "tag" else ("version",)
    keys = ("version", "tag") if owner == "operator" else keys
    releases = dict.fromkeys(keys, f"{tag}{at}{digest}") if digest else {}
    return {"repository": base.rpartition("/")[0] if form == "image" else base, **releases}


def _below(keys: list[str], values: ChartValues) -> ChartValues:
    for key in reversed(keys):
        values = {key: values}
    return values


def merged(ours: ChartValues, theirs: ChartValues) -> ChartValues:
    """Overlay `theirs` on `ours`, mapping by mapping; a list or number replaces the whole."""
    found = dict(ours)
    for key, value in theirs.items():
        mine: JsonValue = found.get(key)
        both = isinstance(mine, dict) and isinstance(value, dict)
        found[key] = (
            merged(cast("ChartValues", mine), cast("ChartValues", value)) if both else value
        )
    return found
