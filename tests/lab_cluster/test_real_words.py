"""What the lab's played parts say is what real ones said on `make lab-pods`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from components.catalogue import upstream
from components.catalogue.cluster_parts import DISTRIBUTIONS
from components.jobs.templates import ssh_options, sshd_command
from components.pod_network.manifests import reference_cni
from components.pod_network.networks import macvlan_attachments
from lab.cluster.attach import AttachError, Site, attach
from lab.cluster.document import Doc
from lab.cluster.launch_ssh import why_unreached
from lab.cluster.pod_events import sandbox_failure
from lab.cluster.pod_view import NETWORKS, Pod, expand
from lab.pods import recorded
from lab.pods.steps_network import Refusal, broken, neutral, recorded_refusals
from tests.golden.site import load_example
from tests.lab_cluster.test_pod_devices import (
    CNI,
    MPIRUN,
    PROBE,
    hca_devices,
    launch,
    make_pod,
    shared_devices,
    shared_node,
)

RECORDED = Path(recorded.__file__).parent
SITE = load_example("shared-rdma")
RAIL = SITE.rails[0]


def definition_of(refusal: Refusal) -> Doc:
    body = cast("Doc", macvlan_attachments(SITE, RAIL)[0])
    config = cast("str", cast("Doc", body["spec"])["config"])
    return {**body, "spec": {"config": broken(config, refusal)}}


def node_pods() -> list[Pod]:
    """What the plan puts on a node: Multus, whereabouts, and of the reference plugins macvlan."""
    macvlan = reference_cni("macvlan", upstream.CNI_PLUGINS, DISTRIBUTIONS["k3s"])
    template = cast("dict[str, Any]", macvlan["spec"])["template"]
    return [*CNI[:2], make_pod("macvlan-cni", template["spec"])]


@pytest.mark.parametrize("refusal", recorded_refusals(), ids=lambda each: each.name)
def test_a_refused_pod_gets_the_words_of_the_real_parts(refusal: Refusal, tmp_path: Path) -> None:
    definitions = {f"default/{refusal.name}": definition_of(refusal)}
    if refusal.name == "nowhere":
        definitions = {}
    notes = {NETWORKS: refusal.name}
    pod = make_pod(f"asks-{refusal.name}", {"containers": []}, annotations=notes, uid="4711")
    site = Site(definitions, frozenset({"10.106.157.5"}), address_pools=True)
    with pytest.raises(AttachError) as refused:
        attach(pod, shared_node(shared_devices(tmp_path), node_pods()), site)
    assert neutral(sandbox_failure(pod, str(refused.value)), pod.uid) == refusal.said


def recorded_end(name: str, job: str) -> tuple[str, int]:
    found = json.loads((RECORDED / "mpirun.json").read_text())[name]
    return found["log"].replace("JOB", job), found["exit_code"]


def neutral_end(log: str) -> str:
    return re.sub(r"\[\[\d+,1\]", "[[NUMBER,1]", log)


def test_a_program_that_the_image_lacks_ends_mpirun_as_on_real_pods(tmp_path: Path) -> None:
    devices = hca_devices(tmp_path)
    image = "lab.railyard.dev/no-nccl-tests:1"
    call = [*MPIRUN[:4], "--tag-output", "-np", "2", "all_reduce_perf", "-b", "8"]
    log, code, asked = launch(call, devices, set(), worker_image=image)
    assert (log, code) == recorded_end("no-program", "job")
    assert asked == []


def test_a_rank_that_fails_ends_mpirun_as_on_real_pods(tmp_path: Path) -> None:
    devices = hca_devices(tmp_path)
    script = (
        'case $(hostname) in *-1) echo "no RDMA device has a GID of net1 on $(hostname): '
        'is the pod on that rail?" >&2; exit 1 ;; esac; exec "$@"'
    )
    wrapped = ["/bin/sh", "-c", script, "script", "all_reduce_perf"]
    call = [*MPIRUN[:4], "--tag-output", "-np", "2", *wrapped]
    log, code, _ = launch(call, devices, set())
    assert (neutral_end(log), code) == recorded_end("rank-failed", "job")


@pytest.mark.parametrize(
    ("text", "handed_on"),
    [("echo $$", "echo $"), ("$(NAME)-$(id -u)", "value-$(id -u)"), ("$$(NAME)", "$(NAME)")],
)
def test_a_command_reaches_the_container_as_kubelet_writes_it(text: str, handed_on: str) -> None:
    assert expand(text, {"NAME": "value"}) == handed_on


SSHD = sshd_command(22)
OWN_KEY = (*SSHD[:-3], "HostKey=/etc/ssh/ssh_host_rsa_key", *SSHD[-2:])
NO_LOGIN, NO_DAEMON = ("lab.railyard.dev/no-root-login:1", "lab.railyard.dev/no-orted:1")


def neutral_worker(log: str) -> str:
    named = re.sub(r"-worker-\d", "-worker-N", log)
    return re.sub(r"SHA256:\S+?\.\n", "SHA256:FINGERPRINT.\n", named)


@pytest.mark.parametrize(
    ("name", "image", "command"),
    [
        ("other-port", PROBE, sshd_command(2233)),
        ("other-host-key", PROBE, OWN_KEY),
        ("no-daemon", NO_DAEMON, SSHD),
        ("no-root-login", NO_LOGIN, SSHD),
    ],
)
def test_a_worker_that_is_not_reached_ends_mpirun_as_on_real_pods(
    name: str, image: str, command: tuple[str, ...]
) -> None:
    container = {"name": "worker", "image": image, "command": [*command]}
    spec = {"containers": [container], "hostname": "job-worker-0", "subdomain": "job"}
    worker = make_pod("job-worker-0", spec)
    launcher = make_pod("job-launcher-x7k2p", {"containers": [], "hostname": "job-launcher"})
    call = ("/usr/bin/mpirun", "--mca", "plm_rsh_args", ssh_options(22), "all_reduce_perf")
    end = why_unreached(call, launcher, worker)
    assert end is not None
    assert (neutral_worker(end.log), end.exit_code) == recorded_end(name, "job")
    fine = {**container, "image": PROBE, "command": [*SSHD]}
    good = make_pod("job-worker-1", {**spec, "containers": [fine]})
    assert why_unreached(call, launcher, good) is None
