"""What of a site file is a program on the machine that runs Pulumi: a reviewer hears of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.checks.access import list_secrets
from components.core.problem import render_path
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane

_HERE = "runs on the machine that runs Pulumi, with all that its user may read"


def programs_of(spec: ClusterSpec) -> Mapping[object, str]:
    """What exactly runs, to words on it: its place and its name, never its arguments.

    Arguments may hold a token, and are compared only.
    """
    return dict(_programs(spec))


def added_programs(before: ClusterSpec, after: ClusterSpec) -> tuple[str, ...]:
    """An alarm for each program that only the second file has, or has with other arguments."""
    known = programs_of(before)
    return tuple(
        f"this edit adds a program: {words}"
        for key, words in programs_of(after).items()
        if key not in known
    )


def _programs(spec: ClusterSpec) -> Iterator[tuple[object, str]]:
    for reference, path in list_secrets(spec):
        if reference.command is not None:
            yield reference.command, f"{reference.command[0]} of {render_path(path)} {_HERE}"
    if (plane := spec.kubespray) is not None:
        source = plane.source
        yield ("python", plane.python), f"{plane.python} of kubernetes.python {_HERE}"
        tree = f"kubespray {source.release} of kubernetes.source, with {plane.requirements},"
        yield (source.pin, plane.requirements), f"{tree} {_HERE}"
    if isinstance(spec.kubernetes, ExistingPlane):
        name = spec.kubernetes.kubeconfig.name
        users = "a user of kubernetes.kubeconfig may name one with `exec` in the secret, and that"
        yield ("kubeconfig", name), f"{users} {_HERE}"
    for key in ("gpu", "network", "gpu_device_plugin"):
        operator = getattr(spec.operators, key)
        chart = operator.chart if operator is not None else None
        if chart is not None and chart.repo is None and not chart.chart.startswith("oci://"):
            words = f"the chart {chart.chart} of operators.{key} is a folder of this project: Helm"
            yield ("chart", chart.chart), f"{words} renders it here, and what it makes runs as pods"
