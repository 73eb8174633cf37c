from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from components.catalogue.cluster_parts import UPSTREAM
from components.core.errors import DeviceError
from lab.cluster.artefact import LabPlaces, checksums, publish
from lab.cluster.attach import AttachError, parse_networks
from lab.cluster.device_plugin import plan_pools
from lab.cluster.devices import (
    NodeDevices,
    VirtualFunction,
    dump_devices,
    parse_devices,
    scan_devices,
)
from lab.cluster.document import Doc
from lab.cluster.ipam import Addresses, Asked, allocate, give_addresses, with_file
from lab.cluster.k3s_config import HostPaths, load_flags, make_config, parse_flags
from lab.cluster.k3s_token import check_ca, format_token, parse_token
from lab.cluster.nv_ipam import NoAddressError, NodeStore, give_address, give_blocks
from lab.cluster.pod_shell import Container, Gid, ShownDevice, run_script
from lab.cluster.pod_view import NodeState, Pod
from lab.cluster.pool_files import written_files
from tests.lab_cluster.conftest import make_gpu_node

VF = VirtualFunction(
    pci="0000:05:00.1",
    vendor="15b3",
    device="1018",
    driver="mlx5_core",
    index=0,
    netdev="enp5s0v0",
    rdma="mlx5_2",
    mtu_bytes=9000,
    pf_pci="0000:05:00.0",
    pf_netdev="enp5s0",
)


def resource(selector: dict[str, object], **more: object) -> str:
    entry = {"resourceName": "sriov_111", "selectors": [selector], **more}
    return json.dumps({"resourceList": [entry]})


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        ({"vendors": ["15b3"], "pfNames": ["enp5s0"]}, True),
        ({"vendors": ["8086"], "pfNames": ["enp5s0"]}, False),
        ({"devices": ["1018", "101e"]}, True),
        ({"pfNames": ["enp132s0"]}, False),
        ({"pfNames": ["enp5s0#0-3,6"]}, True),
        ({"pfNames": ["enp5s0#1-3"]}, False),
    ],
)
def test_selectors_take_what_all_their_keys_allow(
    selector: dict[str, object], *, taken: bool
) -> None:
    (pool,) = plan_pools(resource(selector), [VF])
    assert bool(pool.devices) is taken


def test_is_rdma_counts_inside_of_selectors_only() -> None:
    (inside,) = plan_pools(resource({"isRdma": True}), [VF])
    (outside,) = plan_pools(resource({}, isRdma=True), [VF])
    assert (inside.rdma, outside.rdma) == (True, False)
    (without,) = plan_pools(resource({"isRdma": True}), [replace(VF, rdma="")])
    assert without.devices == ()


def test_a_resource_name_with_a_hyphen_is_refused() -> None:
    with pytest.raises(DeviceError, match="invalid characters"):
        plan_pools('{"resourceList": [{"resourceName": "sriov-111"}]}', [VF])


def test_devices_survive_their_json_form(tmp_path: Path) -> None:
    make_gpu_node(tmp_path, vfs=2)
    devices = scan_devices(tmp_path / "sys", None)
    assert (len(devices.vfs), devices.gpus, devices.mellanox_cards) == (4, 8, 2)
    assert devices.vfs[0].pf_netdev == "enp5s0"
    assert parse_devices(dump_devices(devices)) == devices


def test_networks_annotation_in_both_forms() -> None:
    plain = parse_networks("sriov111, other/sriov112@rail1", "default")
    assert [(n.key, n.interface) for n in plain] == [
        ("default/sriov111", "net1"),
        ("other/sriov112", "rail1"),
    ]
    assert parse_networks('[{"name": "sriov111"}]', "default") == plain[:1]


def test_whereabouts_gives_each_address_once_and_honours_its_bounds() -> None:
    used: set[str] = set()
    ipam: Doc = {"range": "10.10.111.0/29", "exclude": ["10.10.111.2/32"], "gateway": "10.10.111.1"}
    while len(used) < 4:
        used.add(allocate(ipam, used))
    assert used == {"10.10.111.3", "10.10.111.4", "10.10.111.5", "10.10.111.6"}
    with pytest.raises(AttachError, match="Could not allocate"):
        allocate(ipam, used)
    fixed: Doc = {"range": "10.10.111.0/24", "range_start": "10.10.111.254"}
    fixed["range_end"] = "10.10.111.254"
    assert allocate(fixed, set()) == "10.10.111.254"


def ip_pool(status: Doc, **spec: object) -> Doc:
    text = json.dumps({"metadata": {"name": "sriov111"}, "spec": spec, "status": status})
    pool: Doc = json.loads(text)
    return pool


def test_nv_ipam_gives_each_node_a_block_until_there_is_none() -> None:
    labels = {name: {"rdma": "true"} for name in ("a", "b", "c")} | {"mgmt01": dict[str, str]()}
    terms = [{"matchExpressions": [{"key": "rdma", "operator": "In", "values": ["true"]}]}]
    wanted: dict[str, object] = {
        "subnet": "10.10.111.0/28",
        "perNodeBlockSize": 6,
        "nodeSelector": {"nodeSelectorTerms": terms},
    }
    # 13 to 18 would hold the broadcast address 15.
    two = [
        {"nodeName": "a", "startIP": "10.10.111.1", "endIP": "10.10.111.6"},
        {"nodeName": "b", "startIP": "10.10.111.7", "endIP": "10.10.111.12"},
    ]
    assert give_blocks(ip_pool({}, **wanted), labels) == two
    left = {name: own for name, own in labels.items() if name != "a"}
    given: Doc = json.loads(json.dumps({"allocations": two}))
    pool = ip_pool(given, **wanted)
    kept = give_blocks(pool, left)
    assert kept == [two[1], {"nodeName": "c", "startIP": "10.10.111.1", "endIP": "10.10.111.6"}]
    other = {**wanted, "perNodeBlockSize": 4}
    assert give_blocks(ip_pool(given, **other), {"b": {"rdma": "true"}}) == [
        {"nodeName": "b", "startIP": "10.10.111.1", "endIP": "10.10.111.4"}
    ]


def test_nv_ipam_goes_round_its_block_and_runs_out() -> None:
    status: Doc = json.loads(
        '{"allocations": [{"nodeName": "a", "startIP": "10.10.111.1", "endIP": "10.10.111.4"}]}'
    )
    exclusions = [{"startIP": "10.10.111.3", "endIP": "10.10.111.3"}]
    pool = ip_pool(status, subnet="10.10.111.0/24", gateway="10.10.111.1", exclusions=exclusions)
    ipam: Doc = {"poolName": "sriov111", "poolType": "ippool"}
    store = NodeStore()
    assert give_address(ipam, "a", [pool], set(), store) == "10.10.111.2"
    # The next one is given although the first is free again.
    assert give_address(ipam, "a", [pool], set(), store) == "10.10.111.4"
    assert give_address(ipam, "a", [pool], {"10.10.111.4"}, store) == "10.10.111.2"
    with pytest.raises(NoAddressError) as full:
        give_address(ipam, "a", [pool], {"10.10.111.2", "10.10.111.4"}, store)
    assert str(full.value) == (
        "grpc call failed: rpc error: code = ResourceExhausted desc = "
        'no free addresses in the pool "sriov111", poolType "ippool"'
    )
    with pytest.raises(NoAddressError, match="code = NotFound desc = configuration for pool"):
        give_address(ipam, "b", [pool], set(), store)


def test_what_an_attachment_leaves_out_is_in_the_nodes_file() -> None:
    """Upstream's documentation of flat files: the attachment's own keys win."""
    path = "/var/lib/rancher/k3s/agent/etc/cni/net.d/whereabouts.d/rail-0.conf"
    ipam: Doc = {"type": "whereabouts", "configuration_path": path, "range_end": "10.10.111.9"}
    file: Doc = {"range": "10.10.111.0/25", "range_end": "10.10.111.99"}
    node = NodeState("gpu01", NodeDevices(), (), (), pool_files={path: file})
    found = with_file(ipam, node)
    assert (found["range"], found["range_end"]) == ("10.10.111.0/25", "10.10.111.9")
    assert allocate(found, set()) == "10.10.111.1"
    bare = NodeState("gpu02", NodeDevices(), (), ())
    with pytest.raises(AttachError, match="config file not found"):
        with_file(ipam, bare)
    # Where whereabouts' own file is in /etc it is read in place of the missing one: no range.
    other = NodeState("gpu03", NodeDevices(), (), (), cni=UPSTREAM)
    assert "range" not in with_file({**ipam, "configuration_path": "/etc/x.conf"}, other)


def test_the_files_of_a_node_are_those_of_its_leaves() -> None:
    folder = "/var/lib/rancher/k3s/agent/etc/cni/net.d"
    script = "file=/host/whereabouts.d/$rail.conf\ndone </pools/nodes"
    container: Doc = {"name": "rail-pools", "command": ["/bin/sh", "-c", script]}
    document: Doc = {
        "metadata": {"name": "rail-pools-1", "namespace": "kube-system"},
        "spec": {
            "nodeName": "gpu09",
            "containers": [container],
            "volumes": [
                {"name": "cni", "hostPath": {"path": folder}},
                {"name": "pools", "configMap": {"name": "rail-pools-0123456789"}},
            ],
        },
        "status": {"phase": "Running"},
    }
    maps = {
        ("kube-system", "rail-pools-0123456789"): {
            "nodes": "gpu01 rail-0 leaf-01\ngpu09 rail-0 leaf-05\n",
            "rail-0.leaf-01.conf": '{"range": "10.10.111.0/25"}',
            "rail-0.leaf-05.conf": '{"range": "10.10.111.128/25"}',
        }
    }
    node = NodeState("gpu09", NodeDevices(), (), [Pod(document)])
    found = written_files(node, lambda space, name: maps[space, name])
    assert found == {f"{folder}/whereabouts.d/rail-0.conf": {"range": "10.10.111.128/25"}}
    document["status"] = {"phase": "Pending"}
    assert written_files(node, lambda space, name: maps[space, name]) == {}


def test_nv_ipam_takes_the_pool_that_the_nodes_own_file_names() -> None:
    """What the attachment says wins; without both it is the name of the network."""
    folder = "/etc/cni/net.d/nv-ipam.d/rail-0"
    ipam: Doc = {"type": "nv-ipam", "confDir": folder, "poolType": "ippool"}
    main: Doc = {"type": "sriov", "name": "sriov111", "ipam": ipam}
    status: Doc = json.loads(
        '{"allocations": [{"nodeName": "gpu09", "startIP": "10.10.111.129",'
        ' "endIP": "10.10.111.144"}]}'
    )
    pool = ip_pool(status, subnet="10.10.111.128/25", gateway="10.10.111.129")
    metadata: Doc = {"name": "sriov111-leaf-05"}
    pools: list[Doc] = [{**pool, "metadata": metadata}]
    addresses = Addresses(set(), pools=False, dhcp=lambda _: "", ip_pools=pools)
    asked = Asked("gpu09", "0000:05:00.0", 111, "uid/net1")
    file: Doc = {"poolName": "sriov111-leaf-05"}
    node = NodeState(
        "gpu09",
        NodeDevices(),
        (),
        (),
        brought=frozenset({"nvidia-k8s-ipam"}),
        pool_files={f"{folder}/nv-ipam.conf": file},
    )
    assert give_addresses(main, node, addresses, asked, ()) == ["10.10.111.130"]
    bare = replace(node, pool_files={})
    with pytest.raises(AttachError, match='configuration for pool "sriov111", poolType "ippool"'):
        give_addresses(main, bare, addresses, asked, ())


def test_tokens_are_taken_apart_as_k3s_does() -> None:
    token = parse_token(format_token(b"ca", "node", "pw:with:colons"))
    assert (token.user, token.password) == ("node", "pw:with:colons")
    check_ca(token, b"ca")
    with pytest.raises(DeviceError, match="does not match"):
        check_ca(token, b"other")
    check_ca(parse_token("pw"), b"any")
    with pytest.raises(DeviceError, match="hash length"):
        parse_token("K10abc::node:pw")


def test_configuration_files_add_up_and_flags_win(tmp_path: Path) -> None:
    etc = tmp_path / "etc/rancher/k3s"
    (etc / "config.yaml.d").mkdir(parents=True)
    (etc / "config.yaml").write_text("node-ip: 127.9.0.1\ntls-san: [a]\nnode-label: [x=1]\n")
    (etc / "config.yaml.d/10.yaml").write_text('"tls-san+": [b]\ntoken: t\n')
    paths = HostPaths(tmp_path)
    flags = {**load_flags(paths), **parse_flags(["--node-name=Other", "--cluster-init"])}
    config = make_config("server", flags, {}, paths, "host")
    assert config.tls_sans == ("a", "b")
    assert (config.node_name, config.token, config.cluster_init) == ("other", "t", True)
    assert config.labels == {"x": "1"}


def test_a_server_flag_is_unknown_to_an_agent(tmp_path: Path) -> None:
    flags = {"tls-san": ["a"], "node-ip": ["127.9.0.1"], "server": ["https://127.9.0.2:6443"]}
    with pytest.raises(DeviceError, match="flag provided but not defined: -tls-san"):
        make_config("agent", flags, {}, HostPaths(tmp_path), "host")


def test_a_pod_script_finds_its_device_and_gid() -> None:
    device = ShownDevice("mlx5_2", "net1", (Gid("10.10.111.3", "net1"),))
    script = (
        "hca=$(basename /sys/class/net/net1/device/infiniband/*)\n"
        "for n in /sys/class/infiniband/$hca/ports/1/gids/*; do case $(cat $n) in"
        " *:ffff:*) gid=${n##*/};; esac; done\n"
        '[ "$(ulimit -l)" = unlimited ] || { echo "memlock is $(ulimit -l)"; exit 3; }\n'
        'exec ib_write_bw -d "$hca" -x "$gid"'
    )
    run = run_script(["sh", "-c", script], Container({}, [device]))
    assert run.call == ("ib_write_bw", "-d", "mlx5_2", "-x", "3")
    limited = run_script(["sh", "-c", script], Container({}, [device], memlock_kib=8192))
    assert (limited.call, limited.output, limited.exit_code) == ((), "memlock is 8192\n", 3)


def test_the_artefact_is_the_same_on_every_machine(tmp_path: Path) -> None:
    first = publish(tmp_path / "a", LabPlaces(Path("/p"), Path("/q"), Path("/c"), Path("/s")))
    second = publish(tmp_path / "b", LabPlaces(Path("/1"), Path("/2"), Path("/3"), Path("/4")))
    for name in checksums():
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert (first / "lab.env").read_text() != (second / "lab.env").read_text()


@pytest.mark.parametrize(
    ("guid", "has_one"),
    [("0000:0000:0000:0000", False), ("0211:22ff:fe33:4400", True), ("", True)],
)
def test_a_pod_on_a_vf_is_told_of_its_node_guid(
    tmp_path: Path,
    guid: str,
    has_one: bool,  # noqa: FBT001 - a case
) -> None:
    make_gpu_node(tmp_path, vfs=1)
    for file in tmp_path.glob("sys/bus/pci/devices/*/infiniband/*") if guid else ():
        (file / "node_guid").write_text(f"{guid}\n")
    devices = parse_devices(dump_devices(scan_devices(tmp_path / "sys", None)))
    (vf, _) = devices.vfs
    assert (vf.node_guid, vf.has_node_guid) == (guid, has_one)
