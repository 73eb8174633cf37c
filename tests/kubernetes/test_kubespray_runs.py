"""Which of kubespray's playbooks run, and what is refused before any of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from components.kubernetes.kubespray.perform import decide_on
from components.kubernetes.kubespray.state import (
    UPGRADE,
    Cluster,
    State,
    UnderWay,
    after,
    allow_even,
    begin,
    decide,
    end,
    over,
    presumed,
    refuse_lost,
    reset_run,
    split_removal,
)
from components.kubernetes.kubespray.wanted import Node, Request, Source, Wanted
from components.remote.step import Endpoint

PIN: Final = "a" * 40
ADDRESSES: Final = {name: f"192.168.1.{number}" for number, name in enumerate("abcdefg", 11)}


def cluster(servers: str = "a", workers: str = "d", **changes: object) -> Wanted:
    nodes = {name: Node("control_plane", ADDRESSES[name]) for name in servers}
    nodes |= {name: Node("worker", ADDRESSES[name]) for name in workers}
    made = Wanted("v2.31.0", PIN, "v1.34.7", nodes, {"calico_mtu": 8950}, tuple(servers))
    return replace(made, **changes)


def words(there: Wanted | None, wanted: Wanted) -> list[str]:
    decision = decide(there, wanted)
    assert not decision.refused
    return [run.words for run in decision.runs]


def refusal(there: Wanted, wanted: Wanted) -> str:
    decision = decide(there, wanted)
    assert not decision.runs
    return "\n".join(decision.refused)


def test_nothing_differs_and_nothing_runs() -> None:
    assert words(cluster(), cluster()) == []


def test_each_difference_has_its_playbook() -> None:
    assert words(None, cluster()) == ["cluster.yml: installs Kubernetes v1.34.7"]
    assert words(cluster(), cluster(workers="def")) == ["scale.yml --limit e,f: adds e and f"]
    assert words(cluster(workers="de"), cluster(workers="d")) == [
        "remove-node.yml: drains e and takes it out"
    ]
    assert words(cluster(), cluster(version="v1.35.4")) == [
        "upgrade-cluster.yml: brings Kubernetes from v1.34.7 to v1.35.4, a few nodes at a time"
    ]
    assert words(cluster(), cluster(release="v2.32.0", pin="b" * 40)) == [
        (
            "upgrade-cluster.yml: brings the cluster from kubespray v2.31.0 to v2.32.0,"
            " a few nodes at a time"
        )
    ]
    assert words(cluster(), cluster(settings={"calico_mtu": 1450})) == [
        "cluster.yml: applies calico_mtu on every node"
    ]


def test_a_worker_leaves_before_another_joins() -> None:
    assert words(cluster(workers="d"), cluster(workers="e")) == [
        "remove-node.yml: drains d and takes it out",
        "scale.yml --limit e: adds e",
    ]


def told(servers: str) -> str:
    return (
        f"upgrade-cluster.yml --limit {servers}: tells the API servers the present members of"
        " etcd, one after the other"
    )


def test_a_control_plane_that_changed_is_told_to_every_api_server() -> None:
    assert words(cluster(), cluster(servers="abc")) == [
        "cluster.yml: adds b and c to the control plane",
        told("a,b,c"),
    ]
    assert words(cluster(servers="abc"), cluster(servers="a")) == [
        "remove-node.yml: drains b and c and takes them out",
        "cluster.yml: tells every node the present control plane",
        told("a"),
    ]
    assert words(cluster(servers="abc"), cluster(servers="abe", workers="df")) == [
        "remove-node.yml: drains c and takes it out",
        "cluster.yml: adds e to the control plane",
        told("a,b,e"),
    ]


def test_several_members_of_etcd_in_one_run_wait_for_each_other() -> None:
    one, two = (decide(cluster(), cluster(servers=servers)).runs[0] for servers in ("ab", "abc"))
    assert one.variables == {}
    assert two.variables == {"etcd_retries": 10}


def test_no_worker_leaves_service_for_a_server() -> None:
    (_, told_run) = decide_on(State(ends(cluster())), request(cluster(servers="abc"), "deny")).runs
    assert told_run.limit == ("a", "b", "c")
    assert told_run.variables == {}


def test_an_upgrade_skips_no_minor_and_never_goes_back() -> None:
    assert refusal(cluster(version="v1.33.0"), cluster(version="v1.35.4")) == (
        "Kubernetes v1.35.4 is 2 minors after v1.33.0, which runs: it goes one at a time.\n"
        "  fix    write a v1.34 first, and run `pulumi up` between"
    )
    assert refusal(cluster(version="v1.35.4"), cluster()) == (
        "Kubernetes v1.34.7 is older than v1.35.4, which runs: neither goes back.\n"
        "  fix    write v1.35.4 or a later one"
    )
    older = cluster(release="v2.30.0", pin="b" * 40)
    assert "kubespray v2.30.0 is older than v2.31.0" in refusal(cluster(), older)
    skipped = cluster(release="v2.33.0", pin="b" * 40)
    assert "kubespray v2.33.0 is 2 minors after v2.31.0" in refusal(cluster(), skipped)


def test_a_tree_that_changed_under_its_name_is_refused() -> None:
    assert "is another tree (bbbbbbbbbbbb) than the one that ran (aaaaaaaaaaaa)" in refusal(
        cluster(), cluster(pin="b" * 40)
    )


def test_no_node_joins_during_an_upgrade() -> None:
    assert "e would join while the release changes" in refusal(
        cluster(), cluster(workers="de", version="v1.35.4")
    )


def test_nodes_keep_role_address_and_order() -> None:
    moved = cluster()
    moved = replace(moved, nodes={**moved.nodes, "d": Node("worker", "192.168.1.99")})
    assert "the node d is 192.168.1.14 and would be 192.168.1.99" in refusal(cluster(), moved)
    promoted = cluster(servers="ad", workers="")
    assert "the node d is a worker and would be a control_plane" in refusal(cluster(), promoted)
    assert "a is the first of the control plane, which kubespray cannot remove" in refusal(
        cluster(servers="abc"), cluster(servers="bcd", workers="")
    )
    assert "new ones come at the end" in refusal(cluster(), cluster(servers="bac"))


def endpoint(name: str) -> Endpoint:
    return Endpoint(name, "host", ADDRESSES[name], 22, "ops", "ssh-ed25519 AAAA")


def ends(wanted: Wanted) -> Cluster:
    return Cluster(wanted, {name: endpoint(name) for name in wanted.nodes})


def request(wanted: Wanted, disruption: str = "allow") -> Request:
    known = ends(wanted).endpoints
    source = Source("git", "https://git.example/kubespray")
    return Request(
        "dev", wanted, source, "lock", "python3", known, 2, 900, disruption, "deny"  # type: ignore[arg-type]
    )  # fmt: skip


def after_a_kill(there: Wanted | None, target: Wanted, playbook: str, wanted: Wanted) -> list[str]:
    under_way = UnderWay(ends(target), playbook, "that", upgrading=playbook == UPGRADE)
    state = State(ends(there) if there else None, under_way)
    decision = decide_on(state, request(wanted))
    return [*(run.words for run in decision.runs), *decision.refused]


def test_what_was_killed_runs_again() -> None:
    target = cluster(workers="de")
    assert after_a_kill(cluster(), target, "scale.yml", target) == ["scale.yml --limit e: adds e"]
    assert after_a_kill(None, target, "cluster.yml", target) == [
        "cluster.yml: installs Kubernetes v1.34.7"
    ]


def test_servers_that_were_not_told_of_each_other_are_in_the_next_run() -> None:
    there, wanted = cluster(), cluster(servers="abc")
    joined, telling = decide(there, wanted).runs
    half = after(there, joined, wanted)
    assert (half.order, half.of_role("control_plane")) == (("a",), ("a", "b", "c"))
    state = State(ends(half), UnderWay(ends(wanted), UPGRADE, telling.words, upgrading=True))
    again, last = decide_on(state, request(wanted)).runs
    assert again.words == "cluster.yml: tells every node the present control plane"
    assert last.words == told("a,b,c")
    assert last.variables == {"upgrade_node_always_cordon": True}
    higher = replace(wanted, version="v1.35.4")
    assert decide_on(state, request(higher)).runs, "no release was on its way"
    assert words(after(half, telling, wanted), wanted) == []


def test_a_server_that_half_joined_leaves_etcd_too() -> None:
    state = State(ends(cluster()), UnderWay(ends(cluster(servers="abc")), "cluster.yml", "that"))
    removal, *_ = decide_on(state, request(cluster())).runs
    assert removal.words == "remove-node.yml: drains b and c and takes them out"
    reckoned = presumed(cluster(), state.under_way, cluster())
    assert reckoned is not None
    assert reckoned.of_role("control_plane") == ("a", "b", "c")


def test_between_two_removals_there_may_be_two_members() -> None:
    three, one = cluster(servers="abc"), cluster()
    (removal, *_) = decide_on(State(ends(three)), request(one)).runs
    lost, other = split_removal(removal, ("c",))
    assert allow_even(lost, 3) == lost
    left = after(three, lost, one).of_role("control_plane")
    assert left == ("a", "b")
    assert allow_even(other, len(left)).variables["ignore_assert_errors"] is True
    assert allow_even(reset_run(), 2) == reset_run()


def test_members_leave_by_a_majority_of_them() -> None:
    three = cluster(servers="abc", workers="de")
    assert refuse_lost(three, ("c", "d", "e")) == ""
    assert refuse_lost(three, ("b", "c")) == (
        "b and c of the 3 members of etcd do not answer, and the others are too few for a "
        "majority: no member can leave, and the API cannot store anything.\n"
        "  fix    bring one of them back; if they are lost, kubespray's documentation,"
        " operations/recover-control-plane.md, says how you recover the others yourself"
    )
    assert refuse_lost(cluster(), ("d",)) == ""


def test_a_node_that_half_joined_is_taken_out_again() -> None:
    assert after_a_kill(cluster(), cluster(workers="de"), "scale.yml", cluster()) == [
        "remove-node.yml: drains e and takes it out"
    ]


def test_a_node_that_half_left_joins_again() -> None:
    both = cluster(workers="de")
    assert after_a_kill(both, cluster(), "remove-node.yml", both) == ["scale.yml --limit e: adds e"]


def test_a_setting_that_reached_some_nodes_is_put_back() -> None:
    other = cluster(settings={"calico_mtu": 1450})
    assert after_a_kill(cluster(), other, "cluster.yml", cluster()) == [
        "cluster.yml: applies calico_mtu on every node"
    ]


def test_an_upgrade_that_was_killed_is_finished_first() -> None:
    higher = cluster(version="v1.35.4")
    (refused,) = after_a_kill(cluster(), higher, "upgrade-cluster.yml", cluster())
    assert "an upgrade to v1.35.4 with kubespray v2.31.0 ended in the middle" in refused
    assert after_a_kill(cluster(), higher, "upgrade-cluster.yml", higher) == [
        "upgrade-cluster.yml: brings Kubernetes from v1.34.7 to v1.35.4, a few nodes at a time"
    ]


def test_an_upgrade_that_goes_on_uncordons_what_the_killed_one_had_drained() -> None:
    higher = cluster(version="v1.35.4")
    killed = UnderWay(ends(higher), "upgrade-cluster.yml", "that", upgrading=True)
    (run,) = decide_on(State(ends(cluster()), killed), request(higher)).runs
    assert run.variables["upgrade_node_always_cordon"] is True


def test_a_node_that_leaves_meanwhile_does_not_make_an_upgrade_forgotten() -> None:
    there, target = cluster(workers="de"), cluster(version="v1.35.4")
    killed = UnderWay(
        ends(cluster(workers="de", version="v1.35.4")), UPGRADE, "that", upgrading=True
    )
    removal, upgrade = decide_on(State(ends(there), killed), request(target)).runs
    assert (removal.playbook, upgrade.playbook) == ("remove-node.yml", UPGRADE)
    under_way = begin(removal, ends(target), killed)
    assert (under_way.playbook, under_way.upgrading) == ("remove-node.yml", True)
    left = end(removal, ends(target), under_way)
    state = State(ends(cluster()), left)
    assert "an upgrade to v1.35.4" in decide_on(state, request(cluster())).refused[0]
    assert end(upgrade, ends(target), left) is None


def test_a_lost_machine_is_taken_out_before_the_others_and_not_cleaned() -> None:
    there, wanted = cluster(workers="def"), cluster(workers="d")
    (removal,) = decide_on(State(ends(there)), request(wanted)).runs
    assert split_removal(removal, ()) == (removal,)
    lost, other = split_removal(removal, ("f",))
    assert lost.words == (
        "remove-node.yml: takes f out and cleans nothing there, as no answer comes"
    )
    assert lost.variables == {
        "node": "f",
        "skip_confirmation": True,
        "reset_restart_network": False,
        "reset_nodes": False,
        "allow_ungraceful_removal": True,
        "drain_timeout": "900s",
    }
    assert other.words == "remove-node.yml: drains e and takes it out"
    assert {*after(there, lost, wanted).nodes} == {"a", "d", "e"}
    assert {*after(after(there, lost, wanted), other, wanted).nodes} == {"a", "d"}
    assert len(split_removal(removal, ("e", "f"))) == 1


def test_a_login_that_changed_is_used_for_nodes_that_stay() -> None:
    there, target = ends(cluster(workers="de")), ends(cluster())
    moved = replace(target, endpoints={**target.endpoints, "d": replace(endpoint("d"), port=2200)})
    ways = over(there, moved).endpoints
    assert (ways["d"].port, ways["e"].port) == (2200, 22)


def test_a_reset_confirms_what_both_of_its_tasks_ask() -> None:
    assert reset_run().variables == {
        "skip_confirmation": True,
        "reset_confirmation": True,
        "reset_restart_network": False,
    }


def test_a_first_installation_keeps_its_nodes_until_it_is_through() -> None:
    (refused,) = after_a_kill(None, cluster(workers="de"), "cluster.yml", cluster())
    assert "the first installation ended in the middle, and would now continue without e" in refused


@pytest.mark.parametrize("wanted", [cluster(version="v1.35.4"), cluster(workers="")])
def test_workers_leave_service_only_where_the_site_allows_it(wanted: Wanted) -> None:
    state = State(ends(cluster()))
    decision = decide_on(state, request(wanted, "deny"))
    assert not decision.runs
    assert "workers would leave service, and disruption.reboots is deny" in decision.refused[0]


def test_an_upgrade_keeps_to_the_policy_of_the_site() -> None:
    (run,) = decide_on(State(ends(cluster())), request(cluster(version="v1.35.4"))).runs
    assert run.variables == {"serial": 2, "drain_timeout": "900s"}
