"""From answers to findings: each lack has one cause, and a good host has none."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
import yaml

from components.artefacts.lock import Lock
from components.cloud.preflight import Topic
from components.core.errors import DeviceError
from components.core.key_values import HostState
from components.core.problem import Finding, on_device, render_finding
from components.core.templates import fault_text
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.fabric.parts import Identity
from components.hosts.host_plan import plan_hosts
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.preflight import report as report_module
from components.preflight.artefacts import Artefact
from components.preflight.judge import judge_session, judge_switch
from components.preflight.report import Preflight, render_html, render_json, render_text
from components.preflight.run import run_preflight
from components.preflight.wants import wants_of
from components.remote import login
from components.remote.login import client_key
from components.remote.step import Endpoint
from components.update.decide import judge_host_settings, judge_situation
from components.update.seen import Seen, Situation
from tests.golden.site import load_example
from tests.preflight.lacks import (
    BALANCED,
    HA,
    LACKS,
    LOCK,
    ROCE,
    SPRAY,
    SPRAYED,
    WANTS,
    WHOLE,
    esxi,
    foreign,
    host,
    judge_engine,
    session,
    settings,
    switch,
)
from tests.preflight.nowhere import hosts_off


def test_every_row_of_the_table_of_texts_is_used_and_each_topic_of_a_cloud_has_one() -> None:
    folder = Path(report_module.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    rows = yaml.safe_load((folder / "findings.yaml").read_text())
    words = {*re.findall(r"[\w-]+", code)}
    starts = tuple(re.findall(r'f"([a-z]+-)\{', code))
    unused = {row for row in rows if not {row, row.replace("-", "_")} & words}
    assert not [row for row in unused if not row.startswith(starts)]
    assert {f"cloud-{topic}" for topic in get_args(Topic)} <= rows.keys()


@pytest.mark.parametrize("cause", LACKS)
def test_one_thing_wrong_is_one_finding(cause: str) -> None:
    (found,) = LACKS[cause]()
    assert found.rule == cause
    assert found.what.endswith(".")
    assert found.actual
    assert found.fix


def test_what_is_as_it_should_be_lacks_nothing() -> None:
    assert host({}) == ()
    assert host({"port.10250": "used", "k3s": "k3s-agent"}) == ()  # K3s itself
    assert foreign("good") == ()
    assert host({"port.10250": "used", "kubelet": "kubelet"}, wants=SPRAYED) == ()
    (strange,) = host({"port.10250": "used", "k3s": "k3s-agent"}, wants=SPRAYED)
    assert strange.rule == "port-10250"
    assert tuple(judge_engine(WHOLE)) == ()
    assert switch() == ()
    assert settings("nic.0000:05:00.0.netdev", "enp5s0") == ()


@pytest.mark.parametrize("spec", [ROCE, SPRAY], ids=["k3s", "kubespray"])
@pytest.mark.parametrize("role", ["storage", "login"])
def test_kubernetes_on_a_host_outside_of_the_cluster_says_nothing(
    spec: ClusterSpec, role: str
) -> None:
    *others, last = spec.hosts
    moved = (*others, last.model_copy(update={"role": role}))
    site = spec.model_copy(update={"hosts": moved, "switches": ()})
    wants = wants_of(site, make_plan(site, "site", LOCK), LOCK)
    facts = {"swap": "2097152 /dev/sda2", "selinux": "1", "port.6443": "used"}
    for unit in ({}, {"k3s": "k3s"}, {"kubelet": "kubelet"}):
        assert host(facts | unit, last.name, wants) == ()
        wanting = {last.name: replace(wants[last.name], ports=(6443,))}
        (found,) = host(facts | unit, last.name, wanting)
        assert found.rule == "port-6443", "no Kubernetes is to run here that would explain it"


def test_only_the_kubernetes_of_the_file_explains_a_used_port() -> None:
    used = {"port.6443": "used", "port.10250": "used"}
    spray = {"kubelet": "kubelet"}
    assert host(used | {"k3s": "k3s"}, "mgmt01") == ()
    assert {each.rule for each in host(used | spray, "mgmt01")} == {"port-6443", "port-10250"}
    assert host(used | spray, "mgmt01", SPRAYED) == ()
    balancer = HA.balancers[0].name
    for other in ({"k3s": "k3s"}, spray):
        (found,) = host(used | other, balancer, BALANCED)
        assert found.rule == "port-6443"
    ours = {"railyard-haproxy": "railyard-haproxy"}
    assert host(used | ours, balancer, BALANCED) == (), "an update was here before"
    assert {each.rule for each in host(used | ours, "mgmt01")} == {"port-6443", "port-10250"}


def test_only_k3s_on_an_enforcing_host_needs_its_policy() -> None:
    assert host({"selinux": "0"}) == ()
    assert host({"selinux": "1", "k3s_policy": "there"}) == ()
    assert host({"selinux": "1"}, wants=SPRAYED) == ()
    (found,) = host({"selinux": "1"})
    assert found.severity == "error"
    assert "write kubernetes.source.selinux_policy: https://github.com/k3s-io/" in found.fix
    assert "dnf install -y container-selinux" in found.fix
    (found,) = host({"selinux": "1", "k3s": "k3s"})
    assert found.severity == "warning"  # it runs already


def test_a_node_that_gets_the_policy_of_the_file_needs_dnf_for_it() -> None:
    named = {name: replace(each, selinux_policy=True) for name, each in WANTS.items()}
    enforcing = {"selinux": "1", "packages": "dnf"}
    assert host(enforcing, wants=named) == ()
    (found,) = host({**enforcing, "packages": "apt-get"}, wants=named)
    assert found.rule == "selinux"
    policy = Artefact("k3s-selinux", "file", "/opt/k3s-selinux.rpm", "a" * 64, ("gpu01",))
    named["gpu01"] = replace(named["gpu01"], artefacts=(policy,))
    assert host({"sum.k3s-selinux": "absent"}, wants=named) == ()  # no SELinux there
    (found,) = host({**enforcing, "sum.k3s-selinux": "absent"}, wants=named)
    assert found.rule == "artefact-k3s-selinux"


@pytest.mark.parametrize(
    ("seconds", "severity"), [(0, None), (1, None), (-1, None), (30, "warning"), (-30, "warning"),
                              (3600, "error"), (-3600, "error")],
)  # fmt: skip
def test_a_clock_is_as_wrong_as_it_is(seconds: int, severity: str | None) -> None:
    found = [each.severity for each in host({"time": str(1_790_000_000 + seconds)})]
    assert found == ([severity] if severity else [])


_THREE = ("switch-release", "switch-model", "switch-rights")


@pytest.mark.parametrize(
    ("system", "says", "wrong"),
    [
        ("eos", Identity("4.32.1F", "DCS-7060DX5-64S-F"), set[str]()),
        ("eos", Identity("4.28.1F", "DCS-7050SX3-48YC8-F"), {"switch-release", "switch-model"}),
        ("sonic", Identity("202405.1-3f2b7c1e0", "DellEMC-Z9332f-O32"), set[str]()),
        (
            "sonic",
            Identity("202205.0-aaaa", "Accton-AS9716-32D"),
            {"switch-release", "switch-model"},
        ),
        ("cumulus", Identity("5.9.2", "MSN3700"), set[str]()),
        ("cumulus", Identity("5.6.0", "VX", "guest"), {*_THREE}),
        ("cumulus", Identity(), {"switch-release", "switch-model"}),
    ],
)
def test_a_switch_is_compared_as_it_names_itself(
    system: str, says: Identity, wrong: set[str]
) -> None:
    mixed = load_example("mixed-fabric")
    one = next(each for each in mixed.switches if each.os == system)
    assert {each.rule for each in judge_switch(one, says)} == wrong


def test_an_esxi_that_is_too_old_for_everything_is_named_as_such() -> None:
    (old,) = esxi("release", "6.7U3")
    assert old.what == "ESXi 6.7U3 is not supported: atsSupport begins with 7.0U2."
    assert (old.actual, old.wanted, old.fix) == ("6.7U3", "7.0U2", "update ESXi to 7.0U2 or later")
    (other,) = esxi("release", "7.0U3")
    assert "another release than the file says" in other.what


def test_a_device_without_a_session_has_one_fix() -> None:
    """As a switch says it that ends each connection."""
    reset = "no session within 10 s: [Errno 104] Connection reset by peer"
    found = judge_session(
        "leaf-01", Unreachable(f"{reset}\n  fix    see the log of its SSH server")
    )
    assert (found.actual, found.fix) == (reset, "see the log of its SSH server")


def test_a_login_without_a_key_of_ours_does_not_blame_the_device() -> None:
    endpoint = Endpoint("gpu01", "host", "192.168.1.30", 22, "root", "", private_key_secret="key")
    said = partial(fault_text, login.__file__, endpoint=endpoint, path="/a", key="key", why="none")
    with pytest.raises(DeviceError) as caught:
        client_key(endpoint, {"key": "no key"})
    rows = ("empty-agent", "no-agent", "no-passphrase")
    opened = said("wrong-passphrase", opener="opener")
    for text in (str(caught.value), opened, *map(said, rows)):
        (found,) = session(text)
        assert (found.rule, found.severity) == ("login-key", "error")
        assert "did not try" in found.what
        assert "firewall" not in found.fix
        assert found.fix not in found.actual


def test_each_way_to_say_that_a_login_is_refused_is_read_so() -> None:
    endpoint = Endpoint("ufm", "host", "192.168.1.30", 22, "admin", "", "ufm_password", "ssh_key")
    said = partial(fault_text, login.__file__, endpoint=endpoint, where=endpoint.where)
    refused = partial(said, "refused-login", who="switch", advice="check the secret ufm_password")
    texts = (
        f"{endpoint.where} refused our SSH key (secret ssh_key): no more methods",
        said("api-password"),
        said("refused-password", what="enable", secret="enable", words="Bad"),
        *(refused(what=what) for what in ("key", "password", "keys of the SSH agent")),
    )
    for text in texts:
        (found,) = session(text)
        assert (found.rule, found.severity, found.actual) == ("login", "error", text)


def test_an_update_refuses_in_the_same_words_what_its_look_sees() -> None:
    plans = plan_hosts(ROCE)
    seen = {plan.name: HostState(dict(plan.desired.values)) for plan in plans}
    at = Situation(ROCE, make_plan(ROCE, "dev"), Applied(), Seen(seen))
    assert [*judge_host_settings(at)] == []
    changed = {**seen["gpu01"].values, "nic.0000:05:00.0.netdev": "ens1f0np0"}
    other = replace(at, seen=Seen({**seen, "gpu01": HostState(changed)}))
    (found,) = judge_host_settings(other)
    assert found in judge_situation(other, "update")
    assert found in judge_situation(other, "preflight")
    assert (found.device, found.rule) == ("gpu01", "netdev")
    assert "gpu01  ens1f0np0; wanted: enp5s0" in render_finding(found)


def report(*findings: Finding) -> Preflight:
    return Preflight("site", ("leaf-01", "gpu01", "gpu02"), findings)


def find(device: str, severity: str = "error", cause: str = "clock") -> Finding:
    words = ("the clock differs.", "2 h behind", "within 1 s", "run <chrony>")
    return replace(on_device(device, cause, *words), severity=severity)


@pytest.mark.parametrize(
    ("severities", "code"),
    [((), 0), (("warning",), 0), (("error", "warning"), 1), (("error", "unreachable"), 4)],
)
def test_the_exit_code_is_that_of_the_worst(severities: tuple[str, ...], code: int) -> None:
    assert report(*(find("gpu01", each) for each in severities)).exit_code == code


def test_a_text_says_a_cause_once_with_all_its_devices() -> None:
    text = render_text(report(find("gpu01", "warning", "swap"), find("gpu01"), find("gpu02")))
    assert text.count("run <chrony>") == 2
    assert re.search(r"clock: .*\n  where  gpu01  2 h.*\n         gpu02  2 h.*\n  fix", text)
    assert text.index("clock:") < text.index("swap (warning):")
    assert text.endswith("2 problems, 1 warning (3 devices read). Nothing was touched.")


def test_the_other_forms_have_everything_and_are_whole() -> None:
    many = report(*(find(f"gpu{number:03}") for number in range(30)))
    data = json.loads(render_json(many))
    assert (data["exit_code"], len(data["findings"])) == (1, 30)
    page = render_html(many)
    assert page.count("2 h behind") == 30
    assert "run &lt;chrony&gt;" in page
    assert "<chrony>" not in page
    assert not re.search(r"(src|href)=|https?://", page)
    assert "22 more" in render_text(many)


def test_every_form_names_the_machines_that_the_update_makes() -> None:
    some = replace(report(find("gpu01")), unmade=("server-0", "worker-<0>"))
    assert json.loads(render_json(some))["unmade"] == ["server-0", "worker-<0>"]
    assert "not read: server-0, worker-<0>; the update makes them" in render_text(some)
    page = render_html(some)
    assert re.search(r"<td[^>]*>server-0</td><td>.*?not made yet", page)
    assert "worker-&lt;0&gt;" in page
    assert "not read" not in render_text(report(find("gpu01")))
    assert "not made yet" not in render_html(report(find("gpu01")))
    many = replace(some, unmade=tuple(f"worker-{number}" for number in range(30)))
    assert "worker-7 and 22 more; the update makes them" in render_text(many)
    assert "worker-29" in render_html(many)


@pytest.mark.parametrize(
    ("wanted", "there", "words"),
    [
        ("ofed", "inbox 6.8.0-71-generic", "is not on the host"),
        ("ofed 5.2-2.2.4.0", "mlnx_ofed 4.9-0.1.7.0 too-old", "older than the file says"),
        ("ofed", "mlnx_ofed 23.10-0.5.5.0 without-modules", "lacks modules for the running kernel"),
        ("doca 25.10", "doca_ofed 25.10 not-loaded", "other modules are loaded"),
    ],
)
def test_a_driver_that_should_be_there_is_judged_by_what_the_host_answers(
    wanted: str, there: str, words: str
) -> None:
    (found,) = settings("driver.present", there, {"driver.present": wanted})
    assert (found.rule, found.actual, found.wanted) == ("rdma-driver", there, wanted)
    assert words in found.what
    assert not settings("driver.present", wanted, {"driver.present": wanted})


def test_the_way_out_that_an_error_names_is_the_fix() -> None:
    (found,) = session("leaf-01: no session: Connection lost\n  fix    see the log of its\nserver")
    assert (found.actual, found.fix) == (
        "leaf-01: no session: Connection lost",
        "see the log of its server",
    )
    (found,) = session("gpu01 refused our key\n  fix    pin its new one")
    assert found.actual == "gpu01 refused our key; pin its new one"


def test_a_missing_secret_is_the_one_cause_and_its_devices_are_not_read() -> None:
    spec = hosts_off(ROCE).model_copy(update={"switches": ()})
    found = run_preflight(spec, make_plan(spec, "dev"), {}, Applied(), Path("/nowhere"), Lock())
    assert found.devices == ()
    rules = {each.rule for each in found.findings}
    assert "secret-ssh_private_key" in rules
    assert "login" not in rules
