"""Split and join exported states, without an engine."""

from __future__ import annotations

import copy
from typing import Any

from components.project.split_state import (
    Share,
    join_states,
    name_of,
    pending_of,
    records_of,
    split_state,
)
from components.update.pieces import OF_PIECES

ROOT = "urn:pulumi:prod::site::pulumi:pulumi:Stack::site-prod"
PROVIDER = "urn:pulumi:prod::site::pulumi:providers:command::default"
SHARED = frozenset({"fabric", "fabric-ready"})
SHARES = (Share("prod-a", frozenset({"leaf-a"})), Share("prod-z", frozenset(), takes_rest=True))


def urn(kind: str, name: str) -> str:
    return f"urn:pulumi:prod::site::{kind}::{name}"


def state() -> dict[str, Any]:
    fabric = urn("railyard:fabric:Fabric", "fabric")
    step = "railyard:fabric:Fabric$command:local:Command"
    leaf, cluster = urn(step, "leaf-a"), urn("command:local:Command", "install")
    gate = urn("railyard:fabric:Fabric$pulumi:index:Stash", "fabric-ready")
    sealed = {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "ciphertext": "v1:x",
    }
    records: list[dict[str, Any]] = [
        {"urn": ROOT, "type": "pulumi:pulumi:Stack", "outputs": {"verdict": "passed"}},
        {"urn": PROVIDER, "type": "pulumi:providers:command", "custom": True, "id": "1"},
        {"urn": fabric, "type": "railyard:fabric:Fabric", "parent": ROOT},
        {
            "urn": leaf, "type": "command:local:Command", "custom": True, "parent": fabric,
            "provider": f"{PROVIDER}::1", "inputs": {"stdin": sealed},
        },
        {
            "urn": gate, "type": "pulumi:index:Stash", "custom": True, "parent": fabric,
            "dependencies": [leaf], "propertyDependencies": {"input": [leaf]},
        },
        {
            "urn": cluster, "type": "command:local:Command", "custom": True, "parent": ROOT,
            "provider": f"{PROVIDER}::1", "dependencies": [gate, leaf], "deletedWith": leaf,
        },
    ]  # fmt: skip
    secrets = {"type": "passphrase", "state": {"salt": "v1:salt"}}
    return {"version": 3, "deployment": {"secrets_providers": secrets, "resources": records}}


def names(part: dict[str, Any]) -> list[str]:
    return [name_of(each) for each in records_of(part)]


def test_each_stack_gets_its_records_with_its_own_name() -> None:
    found = split_state(state(), "prod", SHARES, SHARED)
    assert names(found["prod-a"]) == ["site-prod-a", "default", "fabric", "leaf-a", "fabric-ready"]
    assert names(found["prod-z"]) == ["site-prod-z", "default", "fabric", "fabric-ready", "install"]
    for stack, part in found.items():
        assert all(each["urn"].startswith(f"urn:pulumi:{stack}::") for each in records_of(part))
        assert '"urn:pulumi:prod::' not in str(part).replace("'", '"')


def test_edges_to_other_stacks_are_cut_and_secrets_stay_sealed() -> None:
    found = split_state(state(), "prod", SHARES, SHARED)
    install = records_of(found["prod-z"])[-1]
    assert install["dependencies"] == [
        "urn:pulumi:prod-z::site::railyard:fabric:Fabric$pulumi:index:Stash::fabric-ready"
    ]
    assert "deletedWith" not in install
    assert install["parent"] == "urn:pulumi:prod-z::site::pulumi:pulumi:Stack::site-prod-z"
    leaf = records_of(found["prod-a"])[3]
    assert leaf["inputs"] == records_of(state())[3]["inputs"]
    assert found["prod-a"]["deployment"]["secrets_providers"]["state"]["salt"] == "v1:salt"


def test_a_provider_that_no_record_uses_is_left_out() -> None:
    shares = (Share("prod-s", frozenset()), Share("prod-z", frozenset(), takes_rest=True))
    found = split_state(state(), "prod", shares, SHARED)
    assert names(found["prod-s"]) == ["site-prod-s", "fabric", "fabric-ready"]


def test_a_join_gives_the_same_records_again() -> None:
    before = state()
    joined = join_states(split_state(before, "prod", SHARES, SHARED), "prod")
    assert sorted(names(joined)) == sorted(names(before))
    was = {each["urn"]: each for each in records_of(before)}
    for each in records_of(joined):
        assert each["type"] == was[each["urn"]]["type"]
        assert each.get("inputs") == was[each["urn"]].get("inputs")
    assert records_of(joined)[0]["outputs"] == {"verdict": "passed"}


def test_a_piece_is_marked_until_it_is_joined() -> None:
    parts = split_state(state(), "prod", SHARES, SHARED, OF_PIECES)
    for part in parts.values():
        marked = {"piece_digest": "", "plan_digest": "", "repairs": "", "updated_at": ""}
        assert records_of(part)[0]["outputs"] == {"verdict": "passed", **marked}
    joined = join_states(parts, "prod", OF_PIECES)
    assert records_of(joined)[0]["outputs"] == {"verdict": "passed"}


def test_each_piece_has_the_site_of_the_program() -> None:
    before = state()
    site = urn("railyard:index:Site", "train")
    record = {"urn": site, "type": "railyard:index:Site", "parent": ROOT, "outputs": {"own": 1}}
    records_of(before).insert(1, record)
    records_of(before)[3]["parent"] = site
    parts = split_state(before, "prod", SHARES, SHARED)
    assert all("train" in names(part) for part in parts.values())
    for part in parts.values():
        records_of(part)[1]["outputs"]["piece_digest"] = "of an update"
    joined = join_states(parts, "prod", ("piece_digest",))
    found = {name_of(each): each for each in records_of(joined)}
    assert found["train"]["outputs"] == {"own": 1}
    assert found["fabric"]["parent"] == site


def test_a_joined_record_follows_all_that_it_needs() -> None:
    parts = split_state(state(), "prod", SHARES, SHARED)
    order = names(join_states({"prod-z": parts["prod-z"], "prod-a": parts["prod-a"]}, "prod"))
    assert order.index("leaf-a") < order.index("fabric-ready") < order.index("install")


def test_unfinished_work_is_named() -> None:
    found = copy.deepcopy(state())
    found["deployment"]["pending_operations"] = [
        {"type": "updating", "resource": records_of(found)[3]}
    ]
    records_of(found)[5]["delete"] = True
    assert pending_of(found) == ["leaf-a", "install"]
