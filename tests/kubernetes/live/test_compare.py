"""Literal objects: what differs, by field, and what the API server writes by itself."""

from __future__ import annotations

from typing import Any, cast

import pytest
import yaml

from components.kubernetes.live.compare import compare_object
from components.kubernetes.manifest import Body

DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: multus
  namespace: kube-system
  labels: {app: multus}
  annotations: {pulumi.com/waitFor: condition=Ready}
spec:
  selector: {matchLabels: {app: multus}}
  template:
    metadata: {labels: {app: multus}}
    spec:
      hostNetwork: true
      nodeSelector: {kubernetes.io/arch: amd64}
      tolerations: [{operator: Exists, effect: NoSchedule}]
      containers:
      - name: multus
        image: ghcr.io/multus:v4.3.0
        args: [--conf=auto, --verbose]
        env:
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        - {name: LEVEL, value: debug}
        ports: [{containerPort: 8080}]
        resources:
          limits: {memory: 1Gi, cpu: 500m, nvidia.com/gpu: 8}
          requests: {memory: 512Mi}
        securityContext: {privileged: true, readOnlyRootFilesystem: false}
        volumeMounts:
        - {name: cni, mountPath: /host/etc/cni, mountPropagation: Bidirectional}
        - {name: scratch, mountPath: /scratch}
      volumes:
      - {name: cni, hostPath: {path: /etc/cni/net.d}}
      - {name: scratch, emptyDir: {}}
"""
LIVE = """
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: multus
  namespace: kube-system
  uid: 1c3f
  resourceVersion: "412"
  generation: 3
  labels: {app: multus}
  annotations: {deprecated.daemonset.template.generation: "3"}
  managedFields: [{manager: pulumi}]
spec:
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: multus}}
  template:
    metadata: {labels: {app: multus}, creationTimestamp: null}
    spec:
      hostNetwork: true
      dnsPolicy: ClusterFirst
      schedulerName: default-scheduler
      securityContext: {}
      nodeSelector: {kubernetes.io/arch: amd64}
      tolerations: [{operator: Exists, effect: NoSchedule}]
      containers:
      - name: multus
        image: ghcr.io/multus:v4.3.0
        imagePullPolicy: IfNotPresent
        args: [--conf=auto, --verbose]
        env:
        - {name: LEVEL, value: debug}
        - {name: NODE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}
        ports: [{containerPort: 8080, hostPort: 8080, protocol: TCP}]
        resources:
          limits: {memory: 1024Mi, cpu: "0.5", nvidia.com/gpu: "8"}
          requests: {memory: "536870912"}
        securityContext: {privileged: true}
        volumeMounts:
        - {name: scratch, mountPath: /scratch}
        - {name: cni, mountPath: /host/etc/cni, mountPropagation: Bidirectional}
      volumes:
      - {name: cni, hostPath: {path: /etc/cni/net.d, type: ""}}
      - {name: scratch, emptyDir: {}}
  updateStrategy: {type: RollingUpdate}
status: {numberReady: 2}
"""
CONTAINER = "spec.template.spec.containers[multus]"


def load(text: str) -> Body:
    return cast("Body", yaml.safe_load(text))


def told(want: Body, live: Body | None) -> list[str]:
    return [str(each) for each in compare_object(want, live)]


def pod(body: Body) -> Any:  # noqa: ANN401 - a JSON value
    return cast("Any", body)["spec"]["template"]["spec"]


def test_what_the_server_writes_and_in_which_order_is_no_drift() -> None:
    assert compare_object(load(DAEMON_SET), load(LIVE)) == ()


def test_an_object_that_is_not_there() -> None:
    assert told(load(DAEMON_SET), None) == ["is absent, want there"]


def test_an_object_that_is_being_deleted() -> None:
    live = load(LIVE)
    cast("Any", live)["metadata"]["deletionTimestamp"] = "2026-11-24T10:00:00Z"
    (found,) = told(load(DAEMON_SET), live)
    assert found == 'metadata.deletionTimestamp is "2026-11-24T10:00:00Z", want absent'


CHANGES = {
    "image": (
        ("containers", 0, "image"),
        "evil:1",
        f'{CONTAINER}.image is "evil:1", want "ghcr.io/multus:v4.3.0"',
    ),
    "args": (
        ("containers", 0, "args"),
        ["--verbose", "--conf=auto"],
        f'{CONTAINER}.args is ["--verbose","--conf=auto"], want ["--conf=auto","--verbose"]',
    ),
    "amount": (
        ("containers", 0, "resources", "limits", "memory"),
        "1G",
        f'{CONTAINER}.resources.limits.memory is "1G", want "1Gi"',
    ),
    "resource": (
        ("containers", 0, "resources", "limits", "nvidia.com/gpu"),
        "4",
        f'{CONTAINER}.resources.limits."nvidia.com/gpu" is "4", want 8',
    ),
    "variable": (
        ("containers", 0, "env", 0, "value"),
        "error",
        f'{CONTAINER}.env[LEVEL].value is "error", want "debug"',
    ),
    "true": (
        ("containers", 0, "securityContext", "privileged"),
        None,
        f"{CONTAINER}.securityContext.privileged is absent, want true",
    ),
    "false": (
        ("containers", 0, "securityContext", "readOnlyRootFilesystem"),
        True,
        f"{CONTAINER}.securityContext.readOnlyRootFilesystem is true, want false",
    ),
    "port": (
        ("containers", 0, "ports", 0, "protocol"),
        "UDP",
        f'{CONTAINER}.ports[8080/TCP] is absent, want {{"containerPort":8080}}',
    ),
    "mount": (
        ("containers", 0, "volumeMounts", 1, "name"),
        "scratch",
        f'{CONTAINER}.volumeMounts[/host/etc/cni].name is "scratch", want "cni"',
    ),
    "toleration": (
        ("tolerations", 0, "effect"),
        "NoExecute",
        'spec.template.spec.tolerations[0].effect is "NoExecute", want "NoSchedule"',
    ),
    "empty folder": (
        ("volumes", 1, "emptyDir"),
        None,
        "spec.template.spec.volumes[scratch].emptyDir is absent, want {}",
    ),
    "selector": (
        ("nodeSelector", "off"),
        "yes",
        (
            'spec.template.spec.nodeSelector.off is "yes", want absent (outside the plan: remove '
            "it yourself)"
        ),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_field_is_named_with_both_values(name: str) -> None:
    path, value, expected = CHANGES[name]
    live = load(LIVE)
    place = pod(live)
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert told(load(DAEMON_SET), live) == [expected]


def test_a_variable_and_a_container_that_another_added() -> None:
    live = load(LIVE)
    pod(live)["containers"][0]["env"].append({"name": "NCCL_IB_DISABLE", "value": "1"})
    pod(live)["containers"].append({"name": "spy", "image": "x"})
    found = compare_object(load(DAEMON_SET), live)
    assert sorted(each.path for each in found) == [
        "spec.template.spec.containers[multus].env[NCCL_IB_DISABLE]",
        "spec.template.spec.containers[spy]",
    ]
    assert not any(each.ours for each in found)


ATTACHMENT = """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: sriov111, annotations: {k8s.v1.cni.cncf.io/resourceName: intel.com/sriov111}}
spec: {config: '{"type": "sriov", "vlan": 111, "ipam": {"range": "10.10.111.0/24"}}'}
"""


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('{"ipam":{"range":"10.10.111.0/24"},"vlan":111,"type":"sriov"}', []),
        (
            '{"type": "sriov", "vlan": 999, "ipam": {"range": "10.10.111.0/24"}}',
            ["spec.config.vlan is 999, want 111"],
        ),
        (
            '{"type": "sriov", "vlan": 111, "trust": "on", "ipam": {}}',
            [
                'spec.config.ipam.range is absent, want "10.10.111.0/24"',
                'spec.config.trust is "on", want absent',
            ],
        ),
    ],
)
def test_json_within_a_text_is_compared_by_its_fields(config: str, expected: list[str]) -> None:
    live = load(ATTACHMENT)
    cast("Any", live)["spec"]["config"] = config
    assert told(load(ATTACHMENT), live) == expected


def test_a_text_that_is_json_no_more_is_shown_cut_short() -> None:
    live = load(ATTACHMENT)
    cast("Any", live)["spec"]["config"] = "x" * 100
    (found,) = told(load(ATTACHMENT), live)
    assert found.startswith(f'spec.config is "{"x" * 59}…, want "{{')


def test_a_text_of_several_lines_is_named_by_its_first_other_line() -> None:
    want = load("{kind: ConfigMap, metadata: {name: c}, data: {a.conf: 'one\n\n  two\n\n  '}}")
    live = load("{kind: ConfigMap, metadata: {name: c}, data: {a.conf: 'one\n\n  2\n\n  ', b: x}}")
    assert told(want, live) == [
        'data."a.conf" line 2 is "2", want "two"',
        'data.b is "x", want absent (outside the plan: remove it yourself)',
    ]


def test_the_value_of_a_secret_is_never_shown() -> None:
    want = load("{kind: Secret, metadata: {name: s}, data: {token: d2FudGVk, more: bW9yZQ==}}")
    live = load("{kind: Secret, metadata: {name: s}, data: {token: Zm91bmQ=}}")
    assert told(want, live) == [
        "data.token is another value (a secret, not shown), want the applied one",
        "data.more is absent, want the applied one",
    ]


def test_what_only_has_the_name_of_an_amount_is_none() -> None:
    """In a definition `storage` is a switch, and `limits` may hold a schema."""
    text = "{kind: X, metadata: {name: x}, spec: {storage: %s, limits: {type: object}}}"
    assert told(load(text % "true"), load(text % "true")) == []
    assert told(load(text % "true"), load(text % "false")) == [
        "spec.storage is false, want true",
    ]


def test_rules_of_a_role_made_of_other_roles_are_the_clusters_own() -> None:
    text = "{kind: ClusterRole, metadata: {name: r}, aggregationRule: {}, rules: %s}"
    rules = "[{apiGroups: [''], resources: [pods], verbs: [get]}]"
    assert told(load(text % "[]"), load(text % rules)) == []
    plain = "{kind: ClusterRole, metadata: {name: r}, rules: %s}"
    (found,) = told(load(plain % rules), load(plain % "[]"))
    assert found.startswith("rules is [], want [{")


def test_a_wish_to_mount_no_token_counts_where_absent_means_yes() -> None:
    want = load("{kind: ServiceAccount, metadata: {name: a}, automountServiceAccountToken: false}")
    live = load("{kind: ServiceAccount, metadata: {name: a}}")
    assert told(want, live) == ["automountServiceAccountToken is absent, want false"]


def test_text_of_the_cluster_cannot_act_on_a_terminal() -> None:
    want = load("{kind: Namespace, metadata: {name: n, labels: {a: b}}}")
    live = load("{kind: Namespace, metadata: {name: n}}")
    cast("Any", live)["metadata"]["labels"] = {"a": "\x1b[2J"}
    assert told(want, live) == ['metadata.labels.a is "\\u001b[2J", want "b"']
