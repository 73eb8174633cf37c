"""The objects to make in the cloud, and the `railyard cloud …` calls, in order: plain values.

The preflight claims the names, then images are resolved. After them come the network, its subnet,
the firewall rules, the IB partition and the instances. A custom network of Crusoe starts without a
single rule, so everything not listed here is closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Final, Literal

from pydantic import JsonValue

from components.catalogue.environments import find_type
from components.cloud import request as requests
from components.cloud.crusoe_api import Document
from components.cloud.kinds import KINDS, ObjectKind
from components.core.plain_text import instances_in, placeholder
from components.core.record import record
from components.core.templates import object_of
from components.model.cluster import ClusterSpec
from components.model.environments import CloudIb, CrusoeProvision, InstancePool
from components.model.worker_kinds import crusoe_of, instance_names

_HCA_SLICES: Final = 8
"""Slices of an IB network that one instance takes: the vendor's example counts 8 per VM."""
_ALL: Final = "1-65535"
_NODE_PORTS: Final = (
    ("tcp", "6443", "api-inside"),
    ("tcp", "2379-2380", "etcd"),
    ("tcp", "10250", "kubelet"),
    ("udp", "8472", "vxlan"),
    ("tcp", "32768-60999", "mpi"),
)
"""Ports that nodes open to each other, from K3s' requirements page.

MPI and NCCL bootstrap use the kernel's ephemeral ports (ip_local_port_range).
"""
PREFLIGHT_STEP: Final = "cloud-preflight"
NETWORK_CLAIMS: Final = "cloud-network-claims"
INSTANCE_CLAIMS: Final = "cloud-instance-claims"
Verb = Literal["preflight", "claim", "image", "ensure", "await"]


@record
class CloudObject:
    """One object and its step. Texts may have placeholders for ids that other steps print."""

    step: str
    kind: ObjectKind
    name: str
    body: dict[str, JsonValue]
    fixed: tuple[str, ...]
    """Settings that cannot be changed: another value makes another object (`triggers`)."""
    slice_type: str = ""
    generation: int = 0

    @property
    def triggers(self) -> tuple[str, ...]:
        """A change of one of these values replaces the object."""
        return (*self.fixed, f"generation={self.generation}")


@record
class ImagePin:
    """One step that resolves a tag once."""

    step: str
    image: str


@record
class InstancePlan:
    """One instance: the step that waits for it, and its requirements."""

    name: str
    step: str
    """The step that waits; its output gives the instance's facts."""
    create: str
    """The step that makes it."""
    request: requests.ReadyRequest
    role: str


@record
class CloudPlan:
    """Everything that a site makes in the cloud."""

    api: requests.CloudApi
    preflight: requests.PreflightRequest
    images: tuple[ImagePin, ...]
    objects: tuple[CloudObject, ...]
    """In an order in which they can be made."""
    instances: tuple[InstancePlan, ...]

    def request(self, item: CloudObject, note: str = "") -> str:
        """The stdin of an object's step, with placeholders."""
        request = requests.ObjectRequest(
            self.api, item.kind, item.name, item.body, item.slice_type, item.generation, note
        )
        return _render(request)

    def ready_request(self, instance: InstancePlan, note: str = "") -> str:
        """The stdin of the step that waits for an instance, with placeholders."""
        return _render(replace(instance.request, repair=note))

    def preflight_request(self) -> str:
        """The stdin of the preflight."""
        return _render(self.preflight)


def _render(
    request: requests.ObjectRequest
    | requests.ReadyRequest
    | requests.ImageRequest
    | requests.PreflightRequest,
) -> str:
    """JSON without empty values, indented so a preview shows the changed setting."""
    document = {key: value for key, value in asdict(request).items() if value != ""}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def plan_cloud(spec: ClusterSpec) -> CloudPlan | None:
    """Plan the cloud objects; None if the site does not use Crusoe."""
    provision, cloud = crusoe_of(spec), spec.cloud
    if provision is None or cloud is None:
        return None
    keys = provision.access_key.name, provision.secret_key.name
    api = requests.CloudApi(provision.endpoint, provision.project, provision.location, *keys)
    site, place = spec.name, provision.location
    slice_type = next((pool.type for pool in provision.pools if _hcas(pool)), "")
    network = placeholder(f"{site}-network", "id")
    pins = {pool.image: f"{pool.name}-image" for pool in reversed(provision.pools)}
    named = [(pool, name) for pool in provision.pools for name in instance_names(pool)]
    objects = (
        _object("network", f"{site}-network", site, cidr=str(provision.vpc_cidr)),
        _object("subnet", f"{site}-subnet", site, cidr=str(provision.subnet_cidr),
                location=place, network=network),
        *(_object("ib-partition", f"{name}-partition", name, slice_type, location=place)
          for name in filter(None, [provision.ib_partition])),
        *(_instance(provision, *each, site, pins[each[0].image]) for each in named),
        *_firewall(spec, provision, cloud),
    )  # fmt: skip
    return CloudPlan(
        api=api,
        preflight=requests.PreflightRequest(
            api=api,
            claims=tuple(requests.Claim(x.kind, x.name, _known_settings(x)) for x in objects),
            images={pool.image: pool.type for pool in provision.pools},
            partition=provision.ib_partition or "",
            slices=_HCA_SLICES if slice_type else 0,
            slice_type=slice_type,
        ),
        images=tuple(ImagePin(step, image) for image, step in sorted(pins.items())),
        objects=objects,
        instances=tuple(_ready(api, provision, *each, pins[each[0].image]) for each in named),
    )


def _object(
    kind: ObjectKind, step: str, name: str, slice_type: str = "", **words: object
) -> CloudObject:
    """One object, from `objects.yaml`."""
    made = object_of("components.cloud", kind, name=name, slice_type=slice_type, **words)
    return CloudObject(step, kind, name, made["body"], tuple(made["fixed"]), slice_type)


def _hcas(pool: InstancePool) -> int:
    kind = find_type(pool.type)
    return kind.hcas if kind else 0


def _instance(
    provision: CrusoeProvision, pool: InstancePool, name: str, site: str, pin: str
) -> CloudObject:
    partition = ""
    if _hcas(pool) and provision.ib_partition is not None:
        partition = placeholder(f"{provision.ib_partition}-partition", "id")
    made = _object(
        "instance", f"{name}-instance", name, type=pool.type, location=provision.location,
        image=placeholder(pin, "image"), tag=pool.image, key=provision.ssh_public_key,
        subnet=placeholder(f"{site}-subnet", "id"),
        adapters=[{"transport_partition_id": partition}] if partition else None,
    )  # fmt: skip
    fixed = (*made.fixed, f"partition={partition}") if partition else made.fixed
    return replace(made, fixed=fixed)


def _ready(
    api: requests.CloudApi, provision: CrusoeProvision, pool: InstancePool, name: str, pin: str
) -> InstancePlan:
    create, hcas = f"{name}-instance", _hcas(pool)
    request = requests.ReadyRequest(
        api, name, placeholder(create, "id"), placeholder(create, "operation"),
        port=provision.ssh_port, hcas=hcas, image_id=placeholder(pin, "id"),
        partition=placeholder(f"{provision.ib_partition}-partition", "id") if hcas else "",
    )  # fmt: skip
    return InstancePlan(name, f"{name}-await", create, request, pool.role)


def _firewall(
    spec: ClusterSpec, provision: CrusoeProvision, cloud: CloudIb
) -> Iterator[CloudObject]:
    subnet, ssh = str(provision.subnet_cidr), str(provision.ssh_port)
    inside: Document = {"cidr": subnet}
    yield _rule(spec.name, ("tcp", ssh, "ssh"), map(str, cloud.ssh_allowed), inside)
    # Open the API at one instance only: the balancer, or the one server if there is none.
    pools = [pool for pool in provision.pools if pool.count]
    doors = [pool for role in ("balancer", "control_plane") for pool in pools if pool.role == role]
    if doors and spec.kubernetes is not None:
        door = placeholder(f"{instance_names(doors[0])[0]}-instance", "id")
        rule = ("tcp", str(spec.kubernetes.api_port), "api")
        yield _rule(spec.name, rule, map(str, cloud.api_allowed), {"resource_id": door})
    for rule in _NODE_PORTS:
        yield _rule(spec.name, rule, [subnet], inside)
    yield _rule(spec.name, ("tcp udp icmp", _ALL, "egress"), [subnet], {"cidr": "0.0.0.0/0"})


def _rule(
    site: str, rule: tuple[str, str, str], sources: Iterable[str], to: Document
) -> CloudObject:
    protocols, ports, word = rule
    return _object(
        "firewall-rule", f"{site}-{word}-rule", f"{site}-{word}",
        network=placeholder(f"{site}-network", "id"),
        direction="egress" if word == "egress" else "ingress",
        sources=[{"cidr": source} for source in sources],
        to=dict(to), protocols=protocols.split(), ports=ports,
    )  # fmt: skip


def _known_settings(item: CloudObject) -> dict[str, str]:
    """The settings that are known before anything is made, and cannot change."""
    kind = KINDS[item.kind]
    return {
        key: value
        for key, value in kind.read(item.body).items()
        if key in kind.fixed and value and not instances_in(value)
    }


@record
class CloudCall:
    """One step: its command, its input, and the steps that it waits for."""

    step: str
    verb: Verb
    stdin: str
    """The input, with placeholders for values that earlier steps print."""
    after: tuple[str, ...] = ()
    delete: Literal["remove", "sweep"] | None = None
    triggers: tuple[str, ...] = ()
    """May have placeholders; a changed value replaces the step, and so the object."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The steps that must run first: those in `after`, and those that fill placeholders."""
        filling = instances_in("\n".join((self.stdin, *self.triggers)))
        return tuple(dict.fromkeys((*self.after, *filling)))


def list_calls(plan: CloudPlan, notes: Mapping[str, str]) -> tuple[CloudCall, ...]:
    """All calls of a plan, each after the calls that it needs.

    After the network, and again after subnets and partitions, comes a call that makes nothing and
    sweeps on destroy. If the creation of an instance got no answer, the state does not record the
    instance, and it still uses its subnet and partition; so the sweep must delete it before them.
    """
    # Made first, and so removed last.
    found = [CloudCall(PREFLIGHT_STEP, "preflight", plan.preflight_request(), delete="sweep")]
    for pin in plan.images:
        request = _render(requests.ImageRequest(plan.api, pin.image))
        found.append(CloudCall(pin.step, "image", request, (PREFLIGHT_STEP,)))

    def ensure(after: str, *kinds: ObjectKind) -> tuple[str, ...]:
        objects = [item for item in plan.objects if item.kind in kinds]
        for item in objects:
            request = plan.request(item, notes.get(item.step, ""))
            found.append(CloudCall(item.step, "ensure", request, (after,), "remove", item.triggers))
        return tuple(item.step for item in objects)

    def claim(step: str, after: tuple[str, ...], *kinds: ObjectKind) -> None:
        claims = tuple(each for each in plan.preflight.claims if each.kind in kinds)
        request = _render(requests.PreflightRequest(plan.api, claims))
        found.append(CloudCall(step, "claim", request, after, "sweep"))

    network = ensure(PREFLIGHT_STEP, "network")
    claim(NETWORK_CLAIMS, (PREFLIGHT_STEP, *network), "subnet", "firewall-rule", "ib-partition")
    grounds = ensure(NETWORK_CLAIMS, "subnet", "ib-partition")
    claim(INSTANCE_CLAIMS, (NETWORK_CLAIMS, *grounds), "instance")
    ensure(INSTANCE_CLAIMS, "instance")
    rules = ensure(NETWORK_CLAIMS, "firewall-rule")
    for each in plan.instances:
        request = plan.ready_request(each, notes.get(each.step, ""))
        found.append(CloudCall(each.step, "await", request, (each.create, *rules)))
    return tuple(found)
