"""An ESXi host or a machine on one has no `railyard rename`, and no refusal sends people there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.drift.applied import applied_from_outputs
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.update.identity import judge_identity
from tests.graph.example_sites import example_graph
from tests.update.judged import texts

SITE = Path("examples/esxi-roce/site.yaml")


def rename_hypervisor(site: Any) -> None:  # noqa: ANN401 - a parsed file
    site["environment"]["hypervisors"][0]["name"] = "esx09"


def rename_guest(site: Any) -> None:  # noqa: ANN401 - a parsed file
    site["hosts"][0]["name"] = site["environment"]["hypervisors"][0]["vms"][0]["name"] = "vm09"
    ports = site["switches"][0]["ports"]
    for port, end in ports.items():
        if isinstance(end, str):
            ports[port] = end.replace("vm01/", "vm09/")


@pytest.mark.parametrize(
    ("edit", "old"), [(rename_hypervisor, "esx01"), (rename_guest, "vm01")], ids=["esxi", "guest"]
)
def test_the_fix_is_the_old_name(edit: Any, old: str) -> None:  # noqa: ANN401 - a function
    site = yaml.safe_load(SITE.read_text())
    applied = applied_from_outputs(example_graph("esxi-roce").state())
    edit(site)
    spec = ClusterSpec.model_validate(site)
    text = "\n".join(texts(judge_identity, make_plan(spec, "prod"), applied, spec=spec))
    assert f"formerly named {old} (" in text
    assert "railyard rename" not in text
    assert f"fix    write {old}; " in text
