"""What is refused before any cluster is asked, each with its remedy."""

from __future__ import annotations

import pytest

from components.model.cluster import ClusterSpec
from components.submit.make import Asked, choose
from tests.golden.site import changed_spec, load_example
from tests.submit.jobs import IMAGE, asked_for

SPEC = load_example("dgx-roce")
REFUSED: dict[str, tuple[Asked, str, str]] = {
    "unknown": (asked_for("nccl", "gpu01,gpu03"), "gpu03 is not a host of the site", "is it gpu0"),
    "control": (asked_for("nccl", "gpu01,gpu02,mgmt01"), "mgmt01 is a control plane host", "gpu01"),
    "twice": (asked_for("nccl", "gpu01,gpu01,gpu02"), "gpu01 is named twice", "once"),
    "none": (Asked("nccl", ()), "--nodes names no node", "gpu01, gpu02"),
    "one": (asked_for("nccl", "gpu01"), "nccl needs two nodes, and --nodes has gpu01 alone", "an"),
    "one-perftest": (asked_for("perftest", "gpu02"), "perftest needs two nodes", "another"),
    "one-horovod": (asked_for("horovod", "gpu02"), "horovod needs two nodes", "another"),
    "no-image": (asked_for("horovod", image=""), "horovod needs an image", "--image"),
    "latest": (asked_for("nccl", image="reg/a:latest"), "--image reg/a:latest: ", "digest"),
    "no-tag": (asked_for("pytorch", image="reg/a"), "--image reg/a: ", "digest"),
    "no-program": (Asked("pytorch", ("gpu01",), image=IMAGE), "pytorch needs a program", "--"),
    "program": (asked_for("nccl", program=("a.py",)), "nccl takes no program", "pytorch"),
    "collective": (asked_for("perftest", collective="alltoall"), "takes no --collective", "nccl"),
    "compare": (asked_for("pytorch", compare=True), "takes no --compare", "horovod and nccl"),
    "form": (asked_for("nccl", form="job"), "nccl takes no --form", "pytorch"),
    "name": (asked_for("nccl", name="My_Job"), '"My_Job" is not a valid job name', "lowercase"),
    "long": (asked_for("nccl", name="a" * 41), "is not a valid job name", "40"),
    "no-deepspeed": (asked_for("deepspeed"), "jobs.deepspeed is not in the file", "update"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_a_remedy(case: str) -> None:
    asked, what, fix = REFUSED[case]
    chosen, troubles = choose(SPEC, asked)
    assert chosen is None
    (trouble,) = troubles
    assert what in trouble.what
    assert fix in trouble.fix


def test_all_is_said_at_once() -> None:
    asked = Asked("horovod", ("gpu9", "mgmt01"), name="A", form="job", collective="alltoall")
    _, troubles = choose(SPEC, asked)
    assert len(troubles) == 6


def test_a_node_may_be_named_as_the_cluster_names_it() -> None:
    hosts = tuple(
        host.model_copy(update={"kubernetes_node": f"{host.name}.example"})
        if host.role == "worker"
        else host
        for host in SPEC.hosts
    )
    asked = asked_for("nccl", ",".join(host.node for host in hosts if host.role == "worker"))
    chosen, troubles = choose(changed_spec(SPEC, hosts=hosts), asked)
    assert troubles == ()
    assert chosen is not None
    assert chosen.kind.names == ("gpu01", "gpu02")


def with_host(spec: ClusterSpec, name: str, **changes: object) -> ClusterSpec:
    hosts = (host.model_copy(update=changes) if host.name == name else host for host in spec.hosts)
    return changed_spec(spec, hosts=tuple(hosts))


def test_nodes_of_two_kinds_are_refused_with_what_differs() -> None:
    _, (trouble,) = choose(with_host(SPEC, "gpu02", gpus=4), asked_for("nccl"))
    assert trouble.what == (
        "the nodes are not of one kind (gpu01: 8 GPUs, rail-0 at 100 Gbit/s, rail-1 at 100 Gbit/s; "
        "gpu02: 4 GPUs, rail-0 at 100 Gbit/s, rail-1 at 100 Gbit/s)"
    )


def test_nodes_that_share_no_rail_are_refused() -> None:
    _, (trouble,) = choose(with_host(SPEC, "gpu02", nics=()), asked_for("perftest"))
    assert "gpu01 and gpu02 share no rail" in trouble.what


def test_a_site_without_kubernetes_has_no_jobs() -> None:
    _, (trouble,) = choose(changed_spec(SPEC, kubernetes=None), asked_for("nccl"))
    assert "lacks Kubernetes" in trouble.what
