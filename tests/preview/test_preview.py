"""What a preview says of an edit, and what it leaves out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from components.plan.make import make_plan
from components.preview.from_plans import NOT_READ, edited_names, items_of_plan, preview_plans
from components.preview.items import (
    Change,
    Item,
    Moved,
    compare_items,
    group_changes,
    items_of_state,
    without_secrets,
)
from components.preview.report import (
    GITHUB_LIMIT,
    MARKER,
    Preview,
    render_json,
    render_markdown,
    render_text,
)
from components.reading.load import parse_site
from tests.checks.cases import ROOT
from tests.core.as_html import EVIL, as_html, assert_harmless, outside_code
from tests.graph.example_sites import NAMES, example_graph, example_plan, example_spec
from tests.preview.edits import EDITS, before, edited, preview_of


def test_a_ports_mtu_is_one_line_and_its_flap_comes_first() -> None:
    text = render_text(preview_of("the MTU of one port"))
    lines = text.splitlines()
    assert (
        lines[2]
        == "! leaf-01: INTERRUPTS (disruption.ports: allow): port 1/2: mtu_bytes: 9216 -> 9000"
    )
    assert "      mtu_bytes: 9216 -> 9000" in lines
    assert text.count("->") == 2, "what changes, and what that interrupts"


def test_ports_and_objects_that_change_alike_stand_on_one_line() -> None:
    lines = render_text(preview_of("the VLAN of a rail")).splitlines()
    assert "    ports 1/2, 1/4" in lines
    assert "      trunk_vlan_112: allowed -> absent" in lines
    assert "    spec.config.vlan: 112 -> 113" in lines
    assert sum("NetworkAttachmentDefinition" in line for line in lines) == 1


def test_hosts_that_reboot_are_named_in_their_order() -> None:
    alarms = preview_of("more VFs").alarms
    assert [alarm.partition(": ")[0] for alarm in alarms] == [
        "WILL REBOOT (group 1 of 2)",
        "WILL REBOOT (group 2 of 2)",
    ]
    assert "gpu01: nic 0000:05:00.0 fw_num_of_vfs 8 -> 12" in alarms[0]
    assert "  gpu01, gpu02:" in render_text(preview_of("more VFs")).splitlines()


def test_a_new_host_is_added_and_not_foretold() -> None:
    found = preview_of("a host more")
    added = [each for each in found.edits if each.verb == "add"]
    assert [(each.kind, each.subject) for each in added] == [("host", "gpu03")]
    assert "Never applied: gpu03. The impact of a first update there is unknown." in found.notes


def test_a_device_that_is_renamed_neither_comes_nor_goes() -> None:
    """Seed 5 of tier 1 of the campaign: it was listed as removed, and as added."""
    found = preview_of("other names")
    assert {each.verb for each in found.edits} == {"change"}
    assert not [note for note in found.notes if "Never applied" in note]


def test_a_node_that_joins_changes_no_setting_of_the_server_that_lets_it_in() -> None:
    recorded = items_of_plan(make_plan(before(), "prod"), with_limits=False)
    wanted = items_of_plan(make_plan(edited("a host more"), "prod"), with_limits=False)
    new = [each for each in compare_items(recorded, wanted) if each.kind == "host"]
    assert {each.subject for each in new} == {"gpu03"}
    assert "machine" in {moved.setting for each in new for moved in each.settings}


def test_a_host_less_is_removed() -> None:
    more, less = (make_plan(spec, "prod") for spec in (edited("a host more"), before()))
    found = preview_plans(before(), more, less, "main")
    assert [each.subject for each in found.edits if each.verb == "remove"] == ["gpu03"]


@pytest.mark.parametrize("name", NAMES)
def test_a_site_that_was_applied_has_nothing_to_preview(name: str) -> None:
    graph = example_graph(name)
    recorded = items_of_state(
        {
            item.urn: cast("Mapping[str, object]", without_secrets(item.inputs))
            for item in graph.resources
            if item.custom
        }
    )
    plan = example_plan(name)
    assert compare_items(recorded, items_of_plan(plan, with_limits=False)) == ()
    assert edited_names(plan, recorded) == frozenset()
    assert recorded


@pytest.mark.parametrize("name", NAMES)
def test_the_same_file_gives_an_empty_preview(name: str) -> None:
    plan = example_plan(name)
    found = preview_plans(example_spec(name), plan, plan, "main")
    assert found.is_empty
    assert found.notes == (NOT_READ,)
    assert "Nothing would change." in render_text(found)
    assert "Nothing would change." in render_markdown(found)


def test_secrets_of_a_state_are_a_word() -> None:
    sealed = {"4dabf18193072939515e22adb298388d": "1b", "ciphertext": "v1:abc"}
    assert without_secrets({"a": [sealed], "b": 1.0}) == {"a": ["[secret]"], "b": 1}


def test_a_hole_that_is_filled_is_no_change() -> None:
    was = Item("host", "a", {("", "address"): "10.0.0.1"})
    wanted = Item("host", "a", {("", "address"): "@{a.public_ip}"})
    assert compare_items({"a-host": was}, {"a-host": wanted}) == ()


def test_a_hole_for_another_instance_is_a_change() -> None:
    was, wanted = (Item("host", "w", {("", "server"): f"@{{{lb}.ip}}"}) for lb in ("lb-0", "lb-1"))
    (change,) = compare_items({"w-k3s": was}, {"w-k3s": wanted})
    assert change.settings == (Moved("", "server", "@{lb-0.ip}", "@{lb-1.ip}"),)


def test_json_holds_all_of_it() -> None:
    document = json.loads(render_json(preview_of("the VLAN of a rail")))
    (switch,) = [each for each in document["edits"] if each["kind"] == "switch"]
    assert {
        "place": "port 1/2",
        "setting": "trunk_vlan_113",
        "old": "absent",
        "new": "allowed",
    } in (switch["settings"])


def many(count: int) -> Preview:
    changes = tuple(
        Change("host", f"gpu{n:04}", "change", (Moved("kernel", "swappiness", str(n), "10"),))
        for n in range(count)
    )
    return replace(preview_of("more VFs"), edits=changes)


@pytest.mark.parametrize("limit", [1_000, 10_000, 65_536])
def test_a_comment_is_never_longer_than_its_limit_and_says_what_is_left_out(limit: int) -> None:
    comment = render_markdown(many(2_000), limit)
    assert len(comment) <= limit
    assert comment.startswith(MARKER)
    assert comment.count("```") % 2 == 0
    shown = comment.count("swappiness")
    assert shown < 2_000
    (cut,) = [line for line in comment.splitlines() if "do not fit into this comment" in line]
    if limit > 1_000:
        assert cut.startswith(f"_{2_000 - shown} more parts")
    assert "swappiness: 1999 -> 10" in render_text(many(2_000))


def test_alike_changes_are_one_in_the_order_of_the_first() -> None:
    moved = (Moved("", "version", "1", "2"),)
    changes = [Change("host", name, "change", moved) for name in ("a", "b")]
    assert [[each.subject for each in group] for group in group_changes(changes)] == [["a", "b"]]


def test_nobody_is_mentioned_and_no_html_is_opened() -> None:
    change = Change("object", "ConfigMap <b>@all", "add", ())
    comment = render_markdown(replace(many(0), edits=(change,)))
    assert outside_code(comment).isdisjoint({"b", "@all"})
    assert "<code>ConfigMap &lt;b&gt;@all: added, 0 settings</code>" in as_html(comment)


def test_words_of_devices_stay_in_code_in_every_part_of_a_comment() -> None:
    found = Preview(
        stack=EVIL,
        basis=EVIL,
        alarms=(EVIL,),
        edits=(Change("object", EVIL, "change", (Moved(EVIL, EVIL, EVIL, EVIL),)),),
        repairs=(EVIL,),
        notes=(EVIL,),
    )
    for limit in (GITHUB_LIMIT, 2_000, 1_000):
        comment = render_markdown(found, limit)
        assert len(comment) <= limit
        assert_harmless(comment)
    text = render_text(found)
    assert [line for line in text.splitlines() if line.startswith(("/", "#", "leaf"))] == []


def test_all_edits_are_previewed() -> None:
    for name in EDITS:
        assert preview_of(name).edits, name


def test_an_upgrade_of_k3s_says_what_it_interrupts_in_the_order_of_the_nodes() -> None:
    """`pulumi preview` says the same of nodes that run what they were last brought to."""
    way = "K3s v1.36.3+k3s1 -> v1.36.4+k3s1"
    only = "it is the only server: the API is away while K3s starts again; jobs go on"
    drained = "it is drained first, and its jobs end or move"
    assert preview_of("another K3s").alarms == (
        f"WILL BE UPGRADED (group 1 of 3): mgmt01: {way}; {only}",
        f"WILL BE UPGRADED (group 2 of 3): gpu01: {way}; {drained}",
        f"WILL BE UPGRADED (group 3 of 3): gpu02: {way}; {drained}",
    )


def test_a_way_back_of_k3s_is_an_alarm_of_the_preview() -> None:
    newer, older = (make_plan(spec, "prod") for spec in (edited("another K3s"), before()))
    (alarm,) = preview_plans(before(), newer, older, "main").alarms
    assert alarm.startswith("kubernetes-version: mgmt01, gpu01, gpu02 run K3s v1.36.4+k3s1, and")


def test_a_host_whose_step_sends_another_secret_is_named() -> None:
    """Seed 11481 of tier 1 of the campaign: only the engine would have shown a change."""
    text = (ROOT / "examples/esxi-roce/site.yaml").read_text()
    other = text.replace("{secret: registry_password}", "{secret: other_password}")
    spec = parse_site(other, "site.yaml").spec
    assert spec is not None
    plans = make_plan(example_spec("esxi-roce"), "prod"), make_plan(spec, "prod")
    edits = preview_plans(spec, *plans, "main").edits
    assert {(each.subject, each.settings[0].setting) for each in edits} == {
        (host.name, "registry-password secret") for host in spec.hosts
    }
