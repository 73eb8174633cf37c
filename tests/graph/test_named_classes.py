"""A change of a traffic class is named, also if nothing is read."""

from __future__ import annotations

from typing import Any

from components import testing
from tests.graph.dev_site import dev_cluster, dev_run, next_run
from tests.graph.whole_program import record_main
from tests.update.test_identity import main

NAMED = "running traffic changes its class"


def test_a_change_of_the_class_is_named_though_nothing_is_read() -> None:
    """Hosts and switches are held against what was last applied, as the refusal does."""
    site: dict[str, Any] = dev_cluster()
    site["disruption"] = {"ports": "deny", "reboots": "deny"}
    site["rdma"] |= {"dscp": 24, "ecn_max_kib": 3000}
    told = testing.record_program(next_run(record_main(dev_run()), site, observe="never"), main)
    text = "\n".join(told.messages)
    for host in ("gpu01", "gpu02"):
        assert f"{host}: {NAMED}: " in text
    assert "traffic_class: 106 -> 98" in text
    assert f"{NAMED}, against the last update: ports 1/1 to 1/4: tc3_ecn_kib: 150-1500" in text


def test_nothing_is_named_if_no_class_changes() -> None:
    told = testing.record_program(
        next_run(record_main(dev_run()), dev_cluster(), observe="never"), main
    )
    assert NAMED not in "\n".join(told.messages)
