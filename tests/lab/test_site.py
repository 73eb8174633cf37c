from __future__ import annotations

import copy
from pathlib import Path
from typing import cast

import pytest
import yaml

from components.checks.site import check_config_value
from components.core.errors import UsageError
from components.core.problem import Json
from components.model.cluster import ClusterSpec
from components.model.places import each_ssh
from components.update.secrets import secret_names
from lab.cluster.artefact import checksums
from lab.debian import ROUTING_PACKAGES, SUBNET_PACKAGES
from lab.keys import client_key, host_key
from lab.prerequisites import programs_of
from lab.site import (
    SWITCH_PASSWORD,
    block_of,
    lab_file,
    load_document,
    name_site,
    overlay,
    secrets_of,
    write_lab_file,
)
from tests.golden.site import EXAMPLES

ROOT = EXAMPLES.parent
EXAMPLE = EXAMPLES / "dgx-roce" / "site.yaml"
PLACES = (ROOT, Path("/cache"), Path("/python"))


def dev_config() -> dict[str, Json]:
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
    return cast("dict[str, Json]", document["config"])


def dev_spec(stack: str = "dev") -> ClusterSpec:
    return ClusterSpec.model_validate(overlay(load_document(EXAMPLE), stack, checksums()))


def test_the_committed_dev_stack_is_the_example_in_the_lab() -> None:
    expected = overlay(load_document(EXAMPLE), "dev", checksums())
    assert dev_config()["railyard:cluster"] == expected, (
        "Pulumi.dev.yaml is older than examples/dgx-roce or the K3s artefact: "
        "put what `railyard lab site` prints into it"
    )
    assert dev_config()["railyard:lab"] == "true"


def test_the_dev_stack_has_every_secret_and_its_salt() -> None:
    config = dev_config()
    for name in secret_names(dev_spec()):
        entry = config[f"railyard:{name}"]
        assert isinstance(entry, dict)
        assert str(entry["secure"]).startswith("v1:")
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
    assert document["encryptionsalt"].startswith("v1:")
    assert set(secret_names(dev_spec())) <= set(secrets_of("dev"))


def test_no_lab_secret_stands_in_the_committed_file() -> None:
    text = (ROOT / "Pulumi.dev.yaml").read_text()
    for name in secret_names(dev_spec()):
        assert secrets_of("dev")[name].strip() not in text


def test_an_overlay_changes_only_what_ties_a_site_to_real_gear() -> None:
    before = load_document(EXAMPLE)
    kept = copy.deepcopy(before)
    after = overlay(before, "dev", checksums())
    assert before == kept
    changed = differing(before, after)
    assert len(changed) > 10
    assert [path for path in changed if not is_tied_to_gear(path)] == []


def is_tied_to_gear(path: tuple[str, ...]) -> bool:
    if path[0] in {"switches", "hosts"}:
        return path[2:] in {("ssh", "address"), ("ssh", "port"), ("ssh", "host_key")}
    if path == ("kubernetes", "reset"):  # a lab's cluster may be destroyed
        return True
    return path[:2] == ("kubernetes", "source") or path[:3] == ("operators", "gpu", "chart")


def differing(left: object, right: object, *path: str) -> list[tuple[str, ...]]:
    """Paths of the leaves that are not the same."""
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = cast("dict[str, object]", left), cast("dict[str, object]", right)
        keys = sorted(one.keys() | other.keys())
        return [p for key in keys for p in differing(one.get(key), other.get(key), *path, key)]
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(cast("list[object]", left), cast("list[object]", right), strict=True)
        return [p for n, (a, b) in enumerate(pairs) for p in differing(a, b, *path, str(n))]
    return [] if left == right else [path]


def test_the_site_in_the_lab_has_no_problems() -> None:
    value = cast("Json", overlay(load_document(EXAMPLE), "other", checksums()))
    checked = check_config_value(value, None)
    assert [problem for problem in checked.problems if problem.severity == "error"] == []


def test_a_cloud_in_the_lab_has_no_problems_either_and_says_what_is_waived() -> None:
    cloud = load_document(EXAMPLE.parents[1] / "crusoe-k3s/site.yaml")
    checked = check_config_value(cast("Json", overlay(cloud, "other", checksums())), None)
    assert [problem for problem in checked.problems if problem.severity == "error"] == []
    assert [each.rule for each in checked.waived] == ["made-host-source"]


def test_every_stack_has_addresses_and_keys_of_its_own() -> None:
    stacks = ["dev", "dgx-roce", "esxi-roce", "shared-rdma", "crusoe-k3s", "quantum-ib"]
    assert len({block_of(stack) for stack in stacks}) == len(stacks)
    assert block_of("dev") == "127.41.0"
    dev, other = dev_spec("dev"), dev_spec("dgx-roce")
    for (_, one, _), (_, two, _) in zip(each_ssh(dev), each_ssh(other), strict=True):
        assert one.address != two.address
        assert one.host_key != two.host_key
        assert one.address.startswith("127.41.0.")


def test_a_device_presents_the_key_that_is_pinned() -> None:
    spec = dev_spec()
    lab = lab_file(spec, "dev", PLACES)
    pinned = {name: ssh.host_key for name, ssh, _ in each_ssh(spec)}
    played = {device.name: device.host_key_seed for device in (*lab.switches, *lab.hosts)}
    assert pinned == {name: host_key(seed).public_openssh for name, seed in played.items()}


def test_the_lab_plays_the_cables_and_cards_of_the_site() -> None:
    lab = lab_file(dev_spec(), "dev", PLACES)
    (switch,) = lab.switches
    assert dict(switch.cables) == {
        "1/1": ("gpu01", "0000:05:00.0"),
        "1/2": ("gpu01", "0000:84:00.0"),
        "1/3": ("gpu02", "0000:05:00.0"),
        "1/4": ("gpu02", "0000:84:00.0"),
    }
    assert switch.password == SWITCH_PASSWORD == secrets_of("dev")["switch_password"]
    gpu01 = next(host for host in lab.hosts if host.name == "gpu01")
    assert [(nic.netdev, nic.rdma, nic.device, nic.vf_device) for nic in gpu01.nics] == [
        ("enp5s0", "mlx5_0", "1017", "1018"),
        ("enp132s0", "mlx5_1", "1017", "1018"),
    ]
    assert gpu01.authorized_key == client_key("dev").public_openssh
    assert gpu01.gpus == 8


def test_the_lab_file_can_be_read_back(tmp_path: Path) -> None:
    lab = lab_file(dev_spec(), "dev", (tmp_path, *PLACES[1:]))
    path = write_lab_file(lab)
    assert path == tmp_path / ".lab" / "dev" / "lab.json"
    assert load_document(path)["stack"] == "dev"


def test_a_missing_example_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the site file cannot be read"):
        load_document(tmp_path / "site.yaml")


@pytest.mark.parametrize(
    ("example", "programs"),
    [
        ("dgx-roce", []),
        ("quantum-ib", [SUBNET_PACKAGES]),
        ("quantum-ufm", [SUBNET_PACKAGES]),
        ("spine-leaf", [ROUTING_PACKAGES]),
    ],
)
def test_a_site_gets_only_the_programs_that_it_is_played_with(
    example: str, programs: list[tuple[str, ...]]
) -> None:
    document = overlay(load_document(EXAMPLES / example / "site.yaml"), example, checksums())
    lab = lab_file(ClusterSpec.model_validate(document), example, PLACES)
    assert [packages for packages, _ in programs_of(lab)] == programs


@pytest.mark.parametrize(
    ("argument", "stack", "file"),
    [
        ("examples/esxi-roce", "esxi-roce", "examples/esxi-roce/site.yaml"),
        ("examples/esxi-roce/", "esxi-roce", "examples/esxi-roce/site.yaml"),
        ("examples/esxi-roce/site.yaml", "esxi-roce", "examples/esxi-roce/site.yaml"),
        ("examples/esxi-roce/cumulus.yaml", "esxi-roce-cumulus", "examples/esxi-roce/cumulus.yaml"),
        ("esxi-roce-cumulus", "esxi-roce-cumulus", "esxi-roce-cumulus/site.yaml"),
    ],
)
def test_what_site_names(argument: str, stack: str, file: str) -> None:
    assert name_site(argument) == (stack, Path(file))


@pytest.mark.parametrize("name", ["rail-optimised", "spine-leaf"])
def test_a_fabric_has_addresses_and_both_ends_of_each_link(name: str) -> None:
    document = load_document(EXAMPLES / name / "site.yaml")
    artefact = {"k3s": "0" * 64, "install.sh": "0" * 64}
    spec = ClusterSpec.model_validate(overlay(document, name, artefact))
    addresses = [ssh.address for _, ssh, _ in each_ssh(spec)]
    assert len({*addresses}) == len(addresses)
    lab = lab_file(spec, name, PLACES)
    links = {
        (switch.name, port): far for switch in lab.switches for port, far in switch.links.items()
    }
    assert links
    assert all(links[far] == end for end, far in links.items())
    leaf = lab.switches[0]
    assert leaf.neighbours["swp1"] == ("gpu01", "rdma0")
    assert leaf.neighbours.keys() == {*leaf.cables, *leaf.links}
