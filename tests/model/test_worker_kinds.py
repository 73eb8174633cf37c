"""Workers of one kind, and the pairs that prove a rail: against lists that are written out."""

from __future__ import annotations

from components.model.cluster import ClusterSpec
from components.model.worker_kinds import (
    fitting_kind,
    rail_pairs,
    speed_classes,
    worker_kinds,
)
from tests.golden.site import load_example


def changed_host(spec: ClusterSpec, name: str, **changes: object) -> ClusterSpec:
    hosts = tuple(
        host.model_copy(update=changes) if host.name == name else host for host in spec.hosts
    )
    return spec.model_copy(update={"hosts": hosts})


def test_hosts_that_are_alike_are_one_kind() -> None:
    (kind,) = worker_kinds(load_example("dgx-roce"))
    assert (kind.name, kind.names, kind.gpus) == ("gpu01", ("gpu01", "gpu02"), 8)
    assert dict(kind.speeds) == {"rail-0": 100, "rail-1": 100}


def test_other_gpus_rails_and_speeds_are_other_kinds() -> None:
    found = worker_kinds(load_example("mixed-nodes"))
    assert [(kind.name, kind.names, kind.gpus, dict(kind.speeds)) for kind in found] == [
        ("gpu01", ("gpu01", "gpu02"), 8, {"rail-0": 100, "rail-1": 100}),
        ("small", ("small01", "small02"), 4, {"rail-0": 50}),
        ("cpu", ("cpu01",), 0, {"rail-0": 100}),
    ]
    assert [kind.runs_collectives for kind in found] == [True, True, False]
    assert [kind.ranks for kind in found] == [16, 8, 0]


def test_another_gpu_is_another_kind() -> None:
    spec = changed_host(load_example("dgx-roce"), "gpu02", gpu_model="A100")
    assert [kind.names for kind in worker_kinds(spec)] == [("gpu01",), ("gpu02",)]


def test_a_group_of_two_kinds_names_neither() -> None:
    spec = changed_host(load_example("mixed-nodes"), "small02", gpus=2)
    names = [kind.name for kind in worker_kinds(spec)]
    assert names == ["gpu01", "small01", "small02", "cpu"]


def test_each_worker_of_a_rail_is_in_a_pair() -> None:
    spec = load_example("mixed-nodes")
    pairs = {
        rail.name: [(p.client.name, p.server.name, p.speed_gbit_s) for p in rail_pairs(spec, rail)]
        for rail in spec.rails
    }
    assert pairs == {
        "rail-0": [
            ("gpu01", "gpu02", 100),
            ("gpu02", "cpu01", 100),
            ("cpu01", "small01", 50),
            ("small01", "small02", 50),
        ],
        "rail-1": [("gpu01", "gpu02", 100)],
    }
    slower = {speed: len(hosts) for speed, hosts in speed_classes(spec, spec.rails[0]).items()}
    assert slower == {100: 3, 50: 2}


def test_a_sample_runs_where_its_workers_fit() -> None:
    spec = load_example("mixed-nodes")
    fits = {
        asked: kind.name if (kind := fitting_kind(spec, *asked)) else None
        for asked in ((2, 8), (2, 4), (1, 0), (3, 4), (2, 9))
    }
    assert fits == {(2, 8): "gpu01", (2, 4): "gpu01", (1, 0): "gpu01", (3, 4): None, (2, 9): None}
