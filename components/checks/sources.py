"""Rules on sources: files that can never exist, and files that may change unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from pydantic import BaseModel, JsonValue

from components.artefacts.listing import artefacts_of, charts_by_release
from components.checks.rule import Finding, Findings, at, places
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.worker_kinds import crusoe_of
from components.operators.operators_plan import chart_values

_ZEROS: Final = "0" * 64

_PINNED: Final = (
    "remove {name} and run `railyard pin` on the site, or write what `sha256sum` prints."
)
_UFM: Final = "write what `openssl x509 -outform der | sha256sum` prints of UFM's certificate."


def check_checksum_zeros(spec: ClusterSpec) -> Findings:
    """A checksum is a real one, not a row of zeros.

    Examples use zeros in place of a checksum. No file has that checksum, so every host would refuse
    its download in the middle of an update.
    """
    for path in _zeros(spec, ()):
        name = str(path[-1])
        where = (at(path, _ZEROS),)
        fix = _UFM if path[0] == "infiniband" else _PINNED.format(name=name)
        yield Finding(f"{name} is all zeros, which is no file's checksum.", where, fix)


def _zeros(value: object, path: SpecPath) -> Iterator[SpecPath]:
    if isinstance(value, BaseModel):
        for key in type(value).model_fields:
            yield from _zeros(getattr(value, key), (*path, key))
    elif isinstance(value, tuple):
        for number, item in enumerate(cast("tuple[object, ...]", value)):
            yield from _zeros(item, (*path, number))
    elif value == _ZEROS:
        yield path


def check_made_host_source(spec: ClusterSpec) -> Findings:
    """Machines that the same update makes hold no files yet, so no source is a path there.

    They start from the cloud's image, whose files Railyard does not know.
    """
    if crusoe_of(spec) is None:
        return
    for artefact in artefacts_of(spec):
        if artefact.path[0] == "kubernetes" and artefact.local:
            yield Finding(
                f"{artefact.name} is at {artefact.address}, but hosts made by this update lack it.",
                (at(artefact.path, artefact.address), at(("environment", "instances"))),
                "write an https address, or leave it out: the default is upstream's own.",
            )


def check_chart_values(spec: ClusterSpec) -> Findings:
    """`values` of a chart add to the plan's decisions, and do not contradict them.

    Other parts of the plan rely on those values: who brings a driver, where CNI plugins are, what
    discovers the nodes' features.
    """
    for release, (owner, _, path) in charts_by_release(spec).items():
        ours = chart_values(spec, release)
        for keys, mine, theirs in _contradictions(ours, owner.values, ()):
            name = ".".join(keys)
            what = f"{name} of {release} is {_shown(theirs)}, and the plan needs {_shown(mine)}."
            fix = f"remove {name} from values, or change the setting that it follows from."
            yield Finding(what, (at((*path[:-1], "values", *keys), _shown(theirs)),), fix)


def _shown(value: JsonValue) -> str:
    words = {True: "true", False: "false", None: "null"}
    return words[value] if isinstance(value, bool) or value is None else str(value)


def _contradictions(
    ours: JsonValue, theirs: JsonValue, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], JsonValue, JsonValue]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours.keys() & theirs.keys():
            yield from _contradictions(ours[key], theirs[key], (*path, key))
    elif ours != theirs:
        yield path, ours, theirs


def check_registry_docker(spec: ClusterSpec) -> Findings:
    """The site's own registry works with containerd, K3s' own runtime.

    Docker takes a CA, a login and plain HTTP from its own files (`/etc/docker`), which belong to
    the owner of Docker.
    """
    registry = spec.sources.registry
    docker = spec.k3s is not None and spec.k3s.container_runtime == "docker"
    if registry is None or not (docker or spec.containers is not None):
        return
    if registry.ca is None and registry.login is None and not registry.insecure:
        return
    yield Finding(
        f"the registry {registry.address} has a CA, a login or no TLS, and the hosts' images are "
        "pulled by Docker, which has settings of its own.",
        places(spec, "sources.registry.address"),
        "set it up in /etc/docker/daemon.json and /etc/docker/certs.d of the hosts and leave ca, "
        "login and insecure out, or use container_runtime: containerd.",
    )
