"""A group stands before `host_defaults`, for its hosts alone."""

from __future__ import annotations

from components.model.cards import DriverPackage
from components.model.hosts import HostGroup
from tests.golden.site import load_example
from tests.hosts.host_text import desired_state

OFED = DriverPackage(
    kind="mlnx_ofed", version="24.10-1.1.4.0", source="/opt/ofed.tgz", sha256="0" * 64
)


def test_a_group_changes_its_own_hosts_and_only_what_it_sets() -> None:
    example = load_example("dgx-roce")
    defaults = example.host_defaults.model_copy(update={"driver": DriverPackage()})
    spec = example.model_copy(update={"host_defaults": defaults})
    first, second = spec.workers
    grouped = spec.model_copy(
        update={
            "host_groups": (HostGroup(name="old", driver=OFED),),
            "hosts": (
                *spec.servers,
                first.model_copy(update={"group": "old"}),
                second,
            ),
        }
    )
    alone = desired_state(spec, first).values
    inside = desired_state(grouped, grouped.workers[0]).values
    changed = {key for key in {*alone, *inside} if alone.get(key) != inside.get(key)}
    topics = {key.rpartition(".")[2] for key in changed if not key.startswith("driver.")}
    assert {"driver.kind", "driver.version"} < changed
    # NVIDIA's driver alone has a place for the class.
    assert topics == {"traffic_class", "vf_traffic_class", "files"}
    assert inside["driver.version"] == "24.10-1.1.4.0"
    assert desired_state(grouped, second).values == desired_state(spec, second).values
