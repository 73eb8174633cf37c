"""Plain cases of what an update decides: refusals by their words, notes, and what it changes."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from components.cloud.observe import Gone
from components.core.difference import Difference
from components.core.key_values import HostState
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import DeviceDrift, PlacementFault, Unreachable
from components.kubernetes.live.look import Asked, ClusterLook
from components.kubernetes.live.read import Key, Live
from components.kubernetes.manifest import Body
from components.model.worker_kinds import with_instances
from components.plan.make import make_plan
from components.update.decide import intend, judge_drift, unrecorded_switches
from components.update.seen import Seen
from tests.golden.site import load_example
from tests.update.judged import refusals
from tests.update.test_cluster import CONFIG
from tests.update.test_decide import PLAN, applied_step, as_applied, clean, decide
from tests.update.test_scope import SHARED, proven

CRUSOE = make_plan(with_instances(load_example("crusoe-k3s")), "crusoe-k3s")
BARE = make_plan(load_example("esxi-roce"), "esxi-roce")
"""A site without Kubernetes and without a cloud."""
LEAF = PLAN.switches[0]
HOST = next(host for host in PLAN.hosts if host.name == "gpu01")
NETWORK = "crusoe-k3s-network"
ACCESS = "mgmt01-cluster-access"


def drift_of(
    device: str,
    step: str = "some-step",
    differences: tuple[Difference, ...] = (),
    unreachable: str | None = None,
) -> DeviceDrift:
    """A device that was applied before, and that nothing else is known of."""
    return DeviceDrift(
        device=device,
        step=step,
        observed=True,
        unreachable=unreachable,
        stranger=False,
        applied=True,
        edited=False,
        differences=differences,
        last_note="",
    )


def with_step(name: str, stdin: str, stdout: str = "") -> Applied:
    """The state after run number 4, with another text of one step."""
    steps = as_applied().steps
    return Applied({**steps, name: AppliedStep(stdin, steps[name].create, stdout)})


def test_a_site_in_a_cloud_has_a_drift_for_each_of_its_objects() -> None:
    devices = [drift.device for drift in judge_drift(CRUSOE, Applied(), Seen())]
    assert devices[:4] == [
        "VPC network crusoe-k3s",
        "subnet crusoe-k3s",
        "IB partition crusoe-k3s",
        "instance crusoe-k3s-0",
    ]
    assert devices[-1] == "crusoe-k3s-worker-1 k3s"


def test_a_cloud_object_that_is_gone_is_made_again_as_another_one() -> None:
    request = {
        "api": {
            "access_key": "crusoe_access_key",
            "endpoint": "https://api.cloud.crusoe.ai/v1",
            "location": "us-east1-a",
            "project": "11111111-2222-3333-4444-555555555555",
            "secret_key": "crusoe_secret_key",
        },
        "body": {"cidr": "10.100.0.0/16", "name": "crusoe-k3s"},
        "generation": 6,
        "kind": "network",
        "name": "crusoe-k3s",
    }
    applied = Applied({NETWORK: AppliedStep(json.dumps(request), stdout='{"id": "n-1"}')})
    found = intend(CRUSOE, applied, Seen(cloud={NETWORK: Gone()}), "changed")
    assert found.plan.cloud is not None
    assert found.plan.cloud.objects[0].generation == 7
    assert [each.generation for each in found.plan.cloud.objects[1:3]] == [0, 0]
    assert found.notes[NETWORK] == ("1: presence of VPC network crusoe-k3s is absent, want present")


@pytest.mark.parametrize(
    ("seen", "beginnings"),
    [
        ("no", []),
        (
            "yes",
            [
                "0 GPUs are on its PCIe bus, and the file says 8: ",
                "no RDMA card at 0000:05:00.0 (enp5s0, rail-0): ",
                "no RDMA card at 0000:84:00.0 (enp132s0, rail-1): ",
            ],
        ),
    ],
)
def test_cards_and_gpus_that_a_look_does_not_find_are_misplaced(
    seen: str, beginnings: list[str]
) -> None:
    """Where the look was at the bus, and of a host that has cards in the file."""
    look = HostState({**HOST.desired.values, "look.host.seen": seen})
    facts = clean() | {"gpu01": look, "gpu01 k3s": look, "mgmt01": look}
    drifts = judge_drift(PLAN, as_applied(), Seen(facts))
    found = {each.device: each.placement for each in drifts if each.placement}
    assert [*found] == ["gpu01"][: len(beginnings)]
    texts = [each.text for each in found.get("gpu01", ())]
    assert len(texts) == len(beginnings)
    assert all(map(str.startswith, texts, beginnings))


def test_a_tool_that_was_never_sent_is_not_missing() -> None:
    digest = next(tool.digest for tool in HOST.sending.reads if tool.name == "host")
    lacks = HostState({**HOST.desired.values, f"tool.lacks.{digest}": "yes"})
    plain = HostState({**HOST.desired.values, digest: "yes"})
    for applied, facts in ((Applied(), lacks), (as_applied(), plain)):
        drifts = judge_drift(PLAN, applied, Seen(clean() | {"gpu01": facts}))
        assert [each.tools for each in drifts if each.tools] == []
        assert HOST.sending.name not in decide(applied=applied, facts={"gpu01": facts}).notes


def kubeconfig(end: datetime) -> str:
    """An administrator's kubeconfig whose certificate ends at a time."""
    key, name = Ed25519PrivateKey.generate(), x509.Name([])
    start = end - timedelta(days=365)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, end)
    pem = builder.sign(key, None).public_bytes(Encoding.PEM)
    client = {"client-certificate-data": base64.b64encode(pem).decode(), "client-key-data": "S0VZ"}
    server = {"certificate-authority-data": "Q0E="}
    return yaml.safe_dump({"clusters": [{"cluster": server}], "users": [{"user": client}]})


OLD, LATE = datetime(2020, 3, 4, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("end", "last", "note"),
    [
        (OLD, "", "the client certificate ends on 2020-03-04"),
        (OLD, "repair=an older reason\n", "the client certificate ends on 2020-03-04"),
        (LATE, "repair=an older reason\n", "an older reason"),
        (LATE, "", None),
    ],
    ids=["ends", "ends again", "was renewed", "good"],
)
def test_access_is_read_again_before_its_certificate_ends(
    end: datetime, last: str, note: str | None
) -> None:
    stdin = as_applied().steps[ACCESS].stdin + last
    applied = with_step(ACCESS, stdin, kubeconfig(end))
    assert decide(applied=applied).notes.get(ACCESS) == note


def test_a_site_without_kubernetes_is_decided_too() -> None:
    found = intend(BARE, Applied(), Seen(), "changed")
    assert (found.run, found.changed) == (1, None)
    assert refusals(BARE, Applied(), found.drifts) == ()


def test_a_repaired_switch_of_a_proven_site_is_what_changes() -> None:
    facts = clean() | {"leaf-01": LEAF.desired.model_copy(update={"vlans": ()})}
    found = decide(applied=proven(SHARED), facts=facts)
    assert (found.changed, found.run) == (frozenset({"leaf-01"}), 5)


def test_where_the_cluster_changed_the_whole_site_is_proven() -> None:
    other: Body = {**CONFIG, "data": {"a": "c"}}
    look = ClusterLook(
        Asked(), Live(((Key("v1", "ConfigMap", "default", "c"), CONFIG, other),)), {}, {}
    )
    applied = replace(proven(SHARED), objects={"some-object": CONFIG})
    found = intend(PLAN, applied, Seen(clean(), cluster=look), "changed")
    assert (found.changed, found.run) == (None, 5)


def test_a_switch_that_nothing_is_recorded_of_and_that_is_as_planned_is_named() -> None:
    new, known = replace(drift_of("leaf-01"), applied=False), drift_of("leaf-01")
    as_planned = {"leaf-01": LEAF.desired}
    (words,) = unrecorded_switches(PLAN, (new,), as_planned)
    assert words == (
        "leaf-01 already matches the plan, but no previous values are recorded, so `destroy`"
        " cannot restore them. If the stack's state was lost, run"
        " `railyard baseline import dev FILE`"
    )
    assert unrecorded_switches(PLAN, (known,), as_planned) == ()
    assert unrecorded_switches(PLAN, (replace(drift_of("gpu01"), applied=False),), as_planned) == ()
    other = {"leaf-01": LEAF.desired.model_copy(update={"vlans": ()})}
    assert unrecorded_switches(PLAN, (new,), other) == ()
    assert unrecorded_switches(PLAN, (new,), {"leaf-01": Unreachable("no answer")}) == ()
    assert unrecorded_switches(PLAN, (new,), {}) == ()


FIX = (
    "so it has to be touched\n"
    "  fix    make it reachable; to preview without looking: "
    "pulumi config set railyard:observe never"
)


CHANGED = (
    "unreachable: no answer\n"
    f"  where  leaf-01 (admin@192.168.1.5:22); the file changed for it, {FIX}"
)
NEW = (
    "unreachable: no answer\n"
    f"  where  leaf-01 (admin@192.168.1.5:22); nothing was ever applied to it, {FIX}"
)
STRANGER = "host key: no answer\n  where  leaf-01 (admin@192.168.1.5:22)"
REACHED = drift_of("leaf-01")
SILENT = drift_of("leaf-01", unreachable="no answer")


@pytest.mark.parametrize(
    ("drift", "words"),
    [
        (SILENT, ()),
        (replace(REACHED, edited=True), ()),
        (replace(REACHED, stranger=True), ()),
        (replace(SILENT, edited=True), (CHANGED,)),
        (replace(SILENT, edited=True, applied=False), (NEW,)),
        (replace(SILENT, stranger=True), (STRANGER,)),
    ],
    ids=["unchanged", "reached", "reached under its key", "edited", "new", "another key"],
)
def test_a_device_that_is_not_reached(drift: DeviceDrift, words: tuple[str, ...]) -> None:
    assert refusals(PLAN, as_applied(), (drift,)) == words


def test_a_cloud_that_does_not_answer_is_named_by_its_address() -> None:
    silent = drift_of("VPC network crusoe-k3s", NETWORK, unreachable="no answer")
    (words,) = refusals(CRUSOE, Applied(), (replace(silent, edited=True),))
    assert words == (
        "unreachable: no answer\n  where  https://api.cloud.crusoe.ai/v1; the file changed for it,"
        f" {FIX}"
    )


def test_of_what_is_misplaced_only_what_must_be_refused_is() -> None:
    found = (PlacementFault("the GPU is far", refused=True), PlacementFault("the link is slow"))
    (words,) = refusals(PLAN, as_applied(), (replace(drift_of("gpu01"), placement=found),))
    assert words == (
        "placement: gpu01: the GPU is far\n  where  gpu01 (nvidia@192.168.2.11:22); the check is of"
        " the PCIe bus as it is now"
    )


LOST = (Difference("instance", "presence", "absent", "present"),)


@pytest.mark.parametrize(
    ("drift", "is_refused"),
    [
        (drift_of("instance crusoe-k3s-0", "crusoe-k3s-0-instance", differences=LOST), True),
        (drift_of("running instance", "crusoe-k3s-0-await", differences=LOST), True),
        (drift_of("crusoe-k3s-0", unreachable="no answer"), True),
        (drift_of("crusoe-k3s-0"), False),
        (drift_of("crusoe-k3s-0", differences=LOST), False),
        (drift_of("running instance", "crusoe-k3s-0-await"), False),
        (drift_of("instance crusoe-k3s-1", "crusoe-k3s-1-instance", differences=LOST), False),
        (drift_of("crusoe-k3s-1", unreachable="no answer"), False),
    ],
    ids=[
        *("gone", "stopped", "silent", "there", "drifted", "runs"),
        *("another is gone", "another is silent"),
    ],
)
def test_nodes_leave_only_over_a_first_server_that_is_there(
    drift: DeviceDrift, *, is_refused: bool
) -> None:
    steps = {step.name: applied_step(step) for step in CRUSOE.steps}
    leaving = Applied(steps | {"gpu98-node": AppliedStep(), "gpu99-node": AppliedStep()})
    found = refusals(CRUSOE, leaving, (drift,))
    words = (
        "stranded: crusoe-k3s-0 is lost, and gpu98, gpu99 would leave the cluster over it.\n"
        "  where  this update removes nodes while the first server is lost\n"
        "  fix    put gpu98, gpu99 back into the file, replace crusoe-k3s-0 with this update, then"
        " remove them with the next"
    )
    assert found == ((words,) if is_refused else ())


def test_nodes_do_not_leave_over_a_lost_server_that_no_cloud_made() -> None:
    plan = replace(CRUSOE, cloud=None)
    steps = {step.name: applied_step(step) for step in plan.steps}
    leaving = Applied(steps | {"gpu99-node": AppliedStep()})
    silent = drift_of("crusoe-k3s-0", unreachable="no answer")
    (words,) = refusals(plan, leaving, (silent,))
    assert words.startswith(
        "stranded: crusoe-k3s-0 is lost, and gpu99 would leave the cluster over"
    )
    assert refusals(plan, leaving, (drift_of("crusoe-k3s-0"),)) == ()


def test_a_secret_on_stdin_is_no_pending_change() -> None:
    """It is not compared here: the engine alone sees whether it changed."""
    silent = drift_of("gpu01", unreachable="no answer")
    token = with_step("gpu01-k3s-token", "a token")
    assert refusals(PLAN, token, (silent,)) == ()
    plain = with_step("gpu01-k3s", "another=1\n")
    assert len(refusals(PLAN, plain, (silent,))) == 1
