"""What the owner of an existing cluster installed on it before Railyard came.

The parts that a site calls `theirs`, by kubectl and Helm with the owner's own kubeconfig: the
manifests of their projects, from which Railyard's own are made, and the simulated chart of the GPU
operator. Their names are those that Railyard would give them, so that an update which fought them
would be seen in them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import yaml

from components.core.errors import DeviceError
from components.jobs.job_plan import plan_jobs
from components.kubernetes.manifest import Body, Manifest
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ClusterParts, ExistingPlane
from components.model.owners import owners_of
from components.pod_network.pod_network_plan import plan_pod_network
from components.update.cluster import part_of
from lab.cluster.build import ensure_binaries
from lab.site import CHARTS

PROJECT: Final = Path(__file__).parents[1]
KUBECONFIG: Final = "owner.kubeconfig"
"""The owner's file, in the folder of the lab."""
MANAGER: Final = "owner"
"""Who wrote the objects, as the API server records it."""
GPU_RELEASE: Final = "gpu-operator"
WAIT: Final = "180s"
_DEADLINE_S: Final = 300.0
_PULUMI: Final = "pulumi.com/"
"""Begins annotations for the provider, which an owner does not write."""


def parts_of_owner(spec: ClusterSpec) -> tuple[Manifest, ...]:
    """The objects of all parts of theirs, but for those that come by a chart."""
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane):
        return ()
    owners = owners_of(spec)
    bare = plane.model_copy(update={"components": ClusterParts()})
    ours = spec.model_copy(update={"kubernetes": bare})
    return tuple(
        manifest
        for manifest in (*plan_pod_network(ours).manifests, *plan_jobs(ours).manifests)
        if (part := part_of(manifest)) is not None
        and part != "attachments"
        and owners[part] == "theirs"
    )


def bring_parts(spec: ClusterSpec, kubeconfig: str, folder: Path) -> None:
    """Install the owner's parts unless they are there, and wait until they are ready.

    Args:
        spec: The site.
        kubeconfig: Of its cluster.
        folder: Of the lab; the owner's kubeconfig stays there.

    Raises:
        DeviceError: kubectl or Helm failed; an object that another took over is one reason.
    """
    parts = parts_of_owner(spec)
    if not parts:
        return
    file = folder / KUBECONFIG
    file.touch(mode=0o600)
    file.write_text(kubeconfig)
    for group in sorted({part.group for part in parts}):
        _apply(file, [part for part in parts if part.group == group])
    if owners_of(spec)["gpu_operator"] == "theirs":
        _gpu_operator(file, folder)
    for part in parts:
        if part.kind in {"DaemonSet", "Deployment"}:
            _kubectl(file, "rollout", "status", *_target(part), f"--timeout={WAIT}")


def _apply(file: Path, parts: list[Manifest]) -> None:
    text = yaml.safe_dump_all([dict(_plain(part.body)) for part in parts])
    flags = ("--server-side", f"--field-manager={MANAGER}", "--filename=-")
    _kubectl(file, "apply", *flags, stdin=text)
    for part in parts:
        if part.kind == "CustomResourceDefinition":
            _kubectl(file, "wait", "--for=condition=Established", f"crd/{part.name}")


def _plain(body: Body) -> Iterator[tuple[str, object]]:
    """The object without what speaks to Pulumi's provider."""
    metadata = cast("Mapping[str, Mapping[str, str]]", body["metadata"])
    notes = metadata.get("annotations", {})
    kept = {key: value for key, value in notes.items() if not key.startswith(_PULUMI)}
    yield from body.items()
    yield "metadata", {**metadata, "annotations": kept}


def _target(part: Manifest) -> tuple[str, ...]:
    metadata = cast("Mapping[str, str]", part.body["metadata"])
    return (f"{part.kind.lower()}/{part.name}", f"--namespace={metadata['namespace']}")


def _gpu_operator(file: Path, folder: Path) -> None:
    """The operator with the driver of the hosts, as its chart brings it."""
    where = (f"--kubeconfig={file}", f"--namespace={GPU_RELEASE}")
    listed = _run(folder, "helm", "list", "--short", *where)
    if GPU_RELEASE not in listed.split():
        chart = str(PROJECT / CHARTS["gpu"])
        flags = ("--create-namespace", "--set=driver.enabled=false", "--wait", f"--timeout={WAIT}")
        _run(folder, "helm", "install", GPU_RELEASE, chart, *where, *flags)
    ready = ("--for=jsonpath={.status.state}=ready", "clusterpolicy/cluster-policy")
    _kubectl(file, "wait", *ready, f"--timeout={WAIT}")


def _kubectl(file: Path, *arguments: str, stdin: str = "") -> str:
    return _run(file.parent, "kubectl", f"--kubeconfig={file}", *arguments, stdin=stdin)


def _run(folder: Path, program: str, *arguments: str, stdin: str = "") -> str:
    """One program of the lab; what it caches lies in the folder."""
    done = subprocess.run(
        [str(ensure_binaries()[program]), *arguments],
        env={"HOME": str(folder / "owner"), "PATH": "/usr/bin:/bin"},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        words = " ".join((program, *arguments))
        raise DeviceError(f"the owner's {words} failed: {done.stderr.strip()}")
    return done.stdout
