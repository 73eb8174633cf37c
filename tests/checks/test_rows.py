"""Rows of rules: values by their keys, and the five forms."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from components.checks.registry import RULES
from components.checks.rows import ROWS, AtMost, Known, Refuse, Requires, Unique
from components.checks.rule import Check, Rule, values
from components.model.cluster import ClusterSpec
from components.reading.members import models_in
from tests.golden.site import changed_spec, load_example

SPEC = load_example("dgx-roce")


def with_vlan(vlan: int) -> ClusterSpec:
    rails = tuple(rail.model_copy(update={"vlan": vlan}) for rail in SPEC.rails)
    return changed_spec(SPEC, rails=rails)


@pytest.mark.parametrize(
    ("keys", "owner", "place"),
    [
        ("hosts.*.gpus", "gpu01", "gpus of gpu01 is"),
        ("hosts.*.nics.*.vfs", "gpu01 ", "vfs of gpu01 "),
        ("switches.*.ports.*.to", "port 1/1 of leaf-01", "to of port 1/1 of leaf-01 is"),
        ("rdma.mode", "", "rdma.mode is"),
        ("kubernetes", "", "kubernetes is set"),
    ],
)
def test_a_value_names_the_part_of_the_file_around_it(keys: str, owner: str, place: str) -> None:
    value = next(each for each in values(SPEC, keys) if each.owner.startswith(owner.strip()))
    assert value.owner.startswith(owner)
    assert value.said.startswith(place)


def test_a_part_that_is_left_out_has_no_values() -> None:
    assert not [*values(SPEC, "infiniband.partitions.*.name containers.build.mofed_version")]


@pytest.mark.parametrize(
    ("check", "what", "fix"),
    [
        (
            Unique("rails.*.vlan", "change one."),
            "rail-0 and rail-1 have the same vlan: 111.",
            "change one.",
        ),
        (
            Requires("kubernetes.plane", "containers", "jobs need it"),
            "kubernetes.plane is k3s, but containers is not set: jobs need it.",
            "remove plane, or set containers.",
        ),
        (
            Requires("kubernetes.plane=k3s", "rdma.mode=lossless|semi_lossless"),
            "kubernetes.plane is k3s, but rdma.mode is lossy_ecn.",
            "remove plane, or set mode to lossless or semi_lossless.",
        ),
        (
            Requires("kubernetes.plane", "rdma.dscp=", fix="remove one."),
            "kubernetes.plane is k3s, but rdma.dscp is 26.",
            "remove one.",
        ),
        (
            Refuse("rdma.mode=lossy_ecn", "the {key} is {value}.", "change {key}."),
            "the mode is lossy_ecn.",
            "change mode.",
        ),
        (
            Known("hosts.*.nics.*.rail", "rails.*.network", "{value} is unknown."),
            "rail-0 is unknown.",
            "choose one of: sriov111, sriov112.",
        ),
        (
            AtMost("rdma.port_mtu_bytes", "rdma.mtu_bytes"),
            "rdma.port_mtu_bytes is 9216, but rdma.mtu_bytes is 9000.",
            "set port_mtu_bytes to 9000 or less.",
        ),
    ],
)
def test_a_row_says_what_is_wrong_and_how_to_fix_it(check: Check, what: str, fix: str) -> None:
    found = next(iter(Rule(check, "a-rule").problems(with_vlan(111))))
    assert (found.rule, found.what, found.fix) == ("a-rule", what, fix)
    assert found.where


@pytest.mark.parametrize(
    "check",
    [
        Unique("rails.*.vlan", "change one."),
        Unique("rails.*.vlan rails.*.subnet", "change one.", when="!rails"),
        Requires("containers", "kubernetes"),
        Requires("kubernetes.plane=existing", "containers"),
        Requires("kubernetes.plane", "rdma.mode=lossy_ecn|lossless"),
        Refuse("rdma.mode=lossless", "{value}", "fix."),
        Known("hosts.*.nics.*.rail", "rails.*.name", "{value}"),
        AtMost("rdma.mtu_bytes", "rdma.port_mtu_bytes"),
        AtMost("rdma.mtu_bytes", "infiniband.mtu_bytes"),
    ],
)
def test_a_row_passes_a_right_site(check: Check) -> None:
    assert not [*check(SPEC)]


def _is_in_model(keys: str) -> bool:
    """Whether the model has a value with these keys; `*` is each entry of a list or a mapping."""
    owners: tuple[type[BaseModel], ...] = (ClusterSpec,)
    for key in filter("*".__ne__, keys.split(".")):
        fields = [each.model_fields[key] for each in owners if key in each.model_fields]
        if not fields:
            return False
        owners = tuple(found for each in fields for found in models_in(each.annotation))
    return True


def test_each_row_names_keys_of_the_model_and_its_rule_exists() -> None:
    names = {rule.name for rule in RULES}
    rows = {name: row for module in ROWS.values() for name, row in module.items()}
    assert rows.keys() <= names
    texts = [
        getattr(row, word, "")
        for rule in rows.values()
        for row in (*rule.unique, *rule.requires, *rule.refuse, *rule.known, *rule.at_most)
        for word in ("keys", "given", "needed", "names", "limit", "also")
    ]
    keys = {key.partition("=")[0] for text in texts for key in text.split()}
    assert keys
    assert not [key for key in keys if not _is_in_model(key)]
