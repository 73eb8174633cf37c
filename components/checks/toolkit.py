"""Rules on NVIDIA's container toolkit: who brings it, and from where."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.drivers import ContainerToolkit
from components.model.operator_owned import runs_docker, toolkit_owner

_PATH: SpecPath = ("host_defaults", "toolkit")


def check_container_toolkit(spec: ClusterSpec) -> Iterator[Finding]:
    """The container toolkit has one owner, who can bring it.

    Without it containers see no GPU, and K3s does not start where its configuration names the
    runtime. What Railyard installs comes from a repository whose key is pinned, or is of a pinned
    version in the repositories that the hosts have; with Docker and no word about the toolkit it is
    whatever these offer, which is a warning.
    """
    asked = spec.host_defaults.toolkit
    if asked is None:
        yield from _unpinned_findings(spec)
        return
    where = at((*_PATH, "kind"), asked.kind)
    yield from _source_findings(asked)
    operator = spec.operators.gpu
    if asked.kind != "operator":
        if operator is not None and operator.driver == "operator":
            yield Finding(
                f"the container toolkit is {asked.kind}, and the GPU operator's driver needs the "
                "operator's own.",
                (where, at(("operators", "gpu", "driver"), operator.driver)),
                "remove toolkit, or let the hosts own the GPU driver (operators.gpu.driver: host).",
            )
    elif operator is None:
        yield Finding(
            "the GPU operator shall bring the container toolkit, and there is no GPU operator.",
            (where,),
            "add operators.gpu, or set kind to present or host.",
        )
    elif runs_docker(spec):
        yield Finding(
            "the GPU operator's toolkit works through containerd, and containers run in Docker.",
            (where,),
            "set kind to present or host.",
        )


def _unpinned_findings(spec: ClusterSpec) -> Iterator[Finding]:
    if toolkit_owner(spec) != "host" or not any(host.gpus for host in spec.workers):
        return
    docker = spec.host_defaults.docker
    by_host = at(("host_defaults", "docker"), docker)
    by_k3s = at(("kubernetes", "container_runtime"), "docker")
    yield Finding(
        "nothing pins the container toolkit: beside Docker Railyard installs the one that the "
        "hosts' repositories offer on that day.",
        (by_host if docker else by_k3s,),
        "set host_defaults.toolkit to {kind: present} if the hosts have it, or to {kind: host, "
        "version: …}, with repository if their own have it not.",
        "warning",
    )


def _source_findings(asked: ContainerToolkit) -> Iterator[Finding]:
    given = {"repository": asked.repository and asked.repository.url, "version": asked.version}
    extra = {key: value for key, value in given.items() if value is not None}
    where = at((*_PATH, "kind"), asked.kind)
    if asked.kind == "host" and not extra:
        yield Finding(
            "Railyard shall install the container toolkit, and neither repository nor version is "
            "named.",
            (where,),
            "add repository with url, key and key_sha256 (NVIDIA's is "
            "https://nvidia.github.io/libnvidia-container), or version if the hosts' own "
            "repositories have the toolkit, or set kind to present.",
        )
    elif asked.kind != "host" and extra:
        yield Finding(
            f"nothing is installed of a container toolkit that is {asked.kind}, and "
            f"{' and '.join(extra)} {'is' if len(extra) == 1 else 'are'} set.",
            (*(at((*_PATH, key), value) for key, value in extra.items()), where),
            f"remove {' and '.join(extra)}, or set kind to host.",
        )
