"""The job of `watch`: made by an update, and its pod run as the API server has it.

The lab's nodes run no program of ours, so this test does what kubelet would do for that pod: its
command, environment, volumes, user and token are those of the pod, in a container by bubblewrap.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from sys import base_prefix
from typing import Any, Final

import pytest

from components.core.record import record
from lab.up import choose_site, load_spec
from tests.lab.until import until
from tests.pushgateway import Gateway, pushgateway
from tests.site.playground import PROJECT, Done, Playground, run

pytestmark = pytest.mark.site

PLACE: Final = "railyard-watch"
OF_US: Final = ("--namespace", PLACE)
ACCOUNT: Final = Path("/run/secrets/kubernetes.io/serviceaccount")
MADE_HERE: Final = {"dev", "proc", "run", "site", "sys", "tmp", "work"}
"""Folders of the container that are not those of this machine."""
WORKERS: Final = ("gpu01", "gpu02")
GOOD: Final = (
    'railyard_device_read{site="dgx-roce",device="cluster"} 1',
    'railyard_run_success{site="dgx-roce",part="accept"} 1',
    'railyard_rail_passed{site="dgx-roce",host="gpu02",rail="rail-1"} 1',
)
BAD: Final = (
    'railyard_deviations{site="dgx-roce",device="leaf-01",kind="setting"} 1',
    'railyard_rail_passed{site="dgx-roce",host="gpu01",rail="rail-0"} 1',
    'railyard_rail_passed{site="dgx-roce",host="gpu01",rail="rail-1"} 0',
)


@pytest.fixture
def gateway() -> Iterator[tuple[type[Gateway], str]]:
    with pushgateway() as made:
        yield made


def metrics(got: type[Gateway]) -> list[str]:
    """The lines of the last push, which is of this site."""
    assert got.got is not None
    _, path, text = got.got
    assert path == "/metrics/job/railyard/site/dgx-roce"
    return text.splitlines()


def asked(site: Playground, *what: str) -> Any:  # noqa: ANN401 - a JSON document
    """What kubectl reads, as the cluster's administrator."""
    return json.loads(site.kubectl("get", *what, "--output", "json").must())


@record
class Watcher:
    """One pod of the job, and the folders of its container."""

    site: Playground
    pod: Any
    folder: Path

    def run(self) -> Done:
        """Run its container as its node would, until it ends."""
        spec = self.pod["spec"]
        (container,) = spec["containers"]
        user = spec["securityContext"]
        mounts = [*self._volumes(container)]
        words = ["bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--clearenv"]
        words += ["--uid", str(user["runAsUser"]), "--gid", str(user["runAsGroup"])]
        words += ["--tmpfs", "/", *mounts, "--remount-ro", "/"]
        for name, value in self._environment(container).items():
            words += ["--setenv", name, value]
        words += ["--chdir", container["workingDir"], *container["command"]]
        return run(words, {"PATH": "/usr/bin:/bin"})

    def _environment(self, container: Any) -> dict[str, str]:  # noqa: ANN401 - JSON
        (source,) = container["envFrom"]
        secret = asked(self.site, "secret", source["secretRef"]["name"], *OF_US)
        found = {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}
        found |= {each["name"]: each["value"] for each in container["env"]}
        address = load_spec(choose_site([])).servers[0].way.address
        found |= {"KUBERNETES_SERVICE_HOST": address, "KUBERNETES_SERVICE_PORT": "6443"}
        return found | {"PATH": f"{PROJECT}/.venv/bin:/usr/bin:/bin"}

    def _volumes(self, container: Any) -> Generator[str]:  # noqa: ANN401 - JSON
        for path in sorted(Path("/").iterdir()):
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            elif path.name not in MADE_HERE:
                yield from ("--ro-bind", str(path), str(path))
        yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run")
        volumes = {each["name"]: each for each in self.pod["spec"]["volumes"]}
        for each in container["volumeMounts"]:
            source = self._source(volumes[each["name"]])
            bind = "--ro-bind" if each.get("readOnly") else "--bind"
            yield from (bind, str(source), each["mountPath"].replace("/var/run", "/run"))
        for own in (str(PROJECT), base_prefix):  # the image
            yield from ("--ro-bind", own, own)
        yield from ("--ro-bind", "/dev/null", "/usr/bin/ssh")  # the image needs none

    def _source(self, volume: Any) -> Path:  # noqa: ANN401 - JSON
        folder = self.folder / volume["name"]
        folder.mkdir(exist_ok=True)
        if "configMap" in volume:
            files = asked(self.site, "configmap", volume["configMap"]["name"], *OF_US)["data"]
            for name, text in files.items():
                (folder / name).write_text(text)
        elif "projected" in volume:
            bound = (
                "--bound-object-kind",
                "Pod",
                "--bound-object-name",
                self.pod["metadata"]["name"],
            )
            account = self.pod["spec"]["serviceAccountName"]
            token = self.site.kubectl("create", "token", account, *OF_US, *bound).must()
            (folder / "token").write_text(token)
            roots = asked(self.site, "configmap", "kube-root-ca.crt", *OF_US)
            (folder / "ca.crt").write_text(roots["data"]["ca.crt"])
        else:
            assert "emptyDir" in volume, volume
        return folder


@contextmanager
def watched(site: Playground, folder: Path, push: str) -> Generator[Watcher]:
    """The stack with `watch`, and a pod that a person started; taken away at the end."""
    edited = folder / "Pulumi.dev.yaml"
    section = {
        "schedule": "0 3 * * *",
        "image": "registry.example/railyard:0.1.0",
        "secret": "devices",
        "conditions": True,
        "push": push,
    }
    line = f"    watch: {json.dumps(section)}\n"
    text = (PROJECT / edited.name).read_text()
    edited.write_text(text.replace("    rails:\n", f"{line}    rails:\n", 1))
    try:
        site.pulumi("up", "--yes", "--skip-preview", "--config-file", str(edited)).must()
        names = ("ssh_private_key", "switch_password")
        secrets = {each: site.pulumi("config", "get", f"railyard:{each}").must() for each in names}
        made = [
            f"--from-literal=RAILYARD_SECRET_{name.upper()}={secret.removesuffix(chr(10))}"
            for name, secret in secrets.items()
        ]
        site.kubectl("create", "secret", "generic", "devices", *OF_US, *made).must()
        site.kubectl("create", "job", "try", "--from=cronjob/railyard-watch", *OF_US).must()
        of_job = ("pods", "--selector=job-name=try", *OF_US)

        def places() -> list[str]:
            return [each["spec"].get("nodeName", "") for each in asked(site, *of_job)["items"]]

        until(places, ["mgmt01"])
        (pod,) = asked(site, *of_job)["items"]
        yield Watcher(site, pod, folder)
    finally:
        site.pulumi("up", "--yes", "--skip-preview").must()


def conditions(site: Playground) -> dict[str, tuple[str, str]]:
    """The condition of each worker and its message."""
    return {
        node: (each["status"], each["message"])
        for node in WORKERS
        for each in asked(site, "node", node)["status"]["conditions"]
        if each["type"] == "RdmaRailProblem"
    }


@pytest.mark.timeout(1200)  # two updates of an engine, and two runs of the job
def test_the_job_of_watch_proves_the_site_and_sees_a_fault(
    standing: Playground, tmp_path: Path, gateway: tuple[type[Gateway], str]
) -> None:
    got, address = gateway
    left = standing.settings()
    with watched(standing, tmp_path, address) as watcher:
        good = watcher.run().must()
        assert "0 differences. Nothing was changed." in good
        assert re.search(r"^PASSED +perftest-rail-1-gpu01-gpu02 ", good, re.MULTILINE), good
        assert {*GOOD} <= {*metrics(got)}
        assert conditions(standing) == dict.fromkeys(WORKERS, ("False", "No Health Failures"))

        standing.fault("leaf-01", "trust", "1/2", "L2")
        bad = watcher.run().must(1)
        assert "trust of port 1/2 is L2, want L3" in bad
        assert "wrong traffic class at leaf-01 1/2" in bad
        assert {*BAD} <= {*metrics(got)}
        fault = "ErrorCode:AUDIT_SETTING Rail:rail-1 trust of port 1/2 is L2, want L3"
        action = "Recommended Action=CONTACT_SUPPORT;"
        assert conditions(standing) == {
            "gpu01": ("True", f"{fault} {action}"),
            "gpu02": ("False", "No Health Failures"),
        }
        standing.fault("leaf-01", "trust", "1/2", "L3")
    assert standing.settings() == left
