"""`railyard cloud preflight`, `claim`, `image` and `sweep`: the first and last steps.

The first preflight checks that all planned names are free and claims them. So the sweep, which runs
after everything was removed, may delete any object that still has a claimed name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from components.cloud.crusoe_api import CrusoeApi, Document
from components.cloud.ensure import delete, ib_capacity
from components.cloud.kinds import KINDS, Item, ObjectKind, documents_of, list_kind, texts_of
from components.cloud.request import Claim, ImageRequest, PreflightRequest, Printed
from components.core.errors import Bug, DeviceError
from components.core.templates import fault_text
from components.reading.wording import did_you_mean

LATEST = "latest"
_ORDER: Sequence[ObjectKind] = ("instance", "firewall-rule", "ib-partition", "subnet", "network")
"""The order in which objects can be deleted: earlier ones use later ones."""
Topic = Literal["name", "location", "type", "image", "capacity", "quota", "infiniband"]
"""The subject of a missing requirement."""
_There = Mapping[ObjectKind, tuple[Item, ...]]
_NOTHING = "\nNothing was made or changed in the cloud."


def preflight(api: CrusoeApi, request: PreflightRequest, previous: Printed) -> Printed:
    """Check all that could stop an update half-way: names, types, images, quota, capacity, IB.

    Prints `claimed`: the names that this stack owns, each with its kind. A DeviceError names all
    that is missing; nothing was made.
    """
    if lacks := look(api, request, previous):
        raise DeviceError("\n".join(f"cloud: {words}" for _, words in lacks) + _NOTHING)
    return claim(request, previous)


def look(
    api: CrusoeApi, request: PreflightRequest, previous: Printed
) -> tuple[tuple[Topic, str], ...]:
    """List every missing requirement with its topic; this only reads, and raises `CloudError`."""
    there: _There = {kind: list_kind(api, KINDS[kind]) for kind in _ORDER}
    missing = [claim for claim in request.claims if _find(there, claim) is None]
    new = Counter(claim.settings["type"] for claim in missing if claim.kind == "instance")
    places = api.get("/locations").get("items")
    listed = api.list_items(api.below_project("compute/vms/types"))
    known = (str(each.get("product_name")) for each in listed)
    types = [claim.settings["type"] for claim in request.claims if claim.kind == "instance"]
    tags, place = _image_tags(api, request.api.location), request.api.location
    images = (image for image in request.images if _resolve(tags, image) is None)
    tagged = (f"{name}:{tag}" for name, entries in tags.items() for tag in entries)
    claimed = _claimed(previous)
    foreign = (
        fault_text(__file__, "foreign", kind=KINDS[claim.kind], claim=claim, item=item)
        for claim in request.claims
        if (item := _find(there, claim)) is not None and _name(claim) not in claimed
    )
    asked: tuple[tuple[Topic, Iterator[str]], ...] = (
        ("name", foreign),
        ("location", _unknown("location", [place], texts_of(places))),
        ("type", _unknown("instance type", types, known)),
        ("image", _unknown(f"image in {place}", images, tagged)),
        ("capacity", _capacity(api, request, new)),
        ("quota", _quota(api, request, new)),
        ("infiniband", _infiniband(api, request, new, there)),
    )
    return tuple((topic, words) for topic, found in asked for words in found)


def claim(request: PreflightRequest, previous: Printed) -> Printed:
    """Remember the names that this stack owns, also former ones; this does not call the API."""
    ours = {_name(each) for each in request.claims} | _claimed(previous)
    return {"claimed": ",".join(sorted(ours))}


def _claimed(previous: Printed) -> set[str]:
    return {*previous.get("claimed", "").split(",")} - {""}


def _name(claim: Claim) -> str:
    return f"{claim.kind}/{claim.name}"


def _find(there: _There, claim: Claim) -> Item | None:
    return next((item for item in there[claim.kind] if item.name == claim.name), None)


def _unknown(what: str, wanted: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    there = sorted(known)
    for name in sorted({*wanted} - {*there}):
        guess = did_you_mean(name, there)
        yield f"the {what} {name} does not exist.{guess} There are: {', '.join(there) or 'none'}."


def _image_tags(api: CrusoeApi, location: str) -> dict[str, dict[str, str]]:
    """Name to tag to id, for the images of one location."""
    found: dict[str, dict[str, str]] = {}
    for image in api.list_items("/compute/images"):
        if location in texts_of(image.get("locations")) and isinstance(image.get("tags"), list):
            entry = found.setdefault(str(image.get("name")), {})
            entry |= dict.fromkeys(texts_of(image.get("tags")), str(image.get("id")))
    return found


def _resolve(tags: dict[str, dict[str, str]], image: str) -> tuple[str, str] | None:
    """The id of an image, and a name that keeps its meaning when a newer image comes."""
    name, _, tag = image.partition(":")
    entries = tags.get(name, {})
    identity = entries.get(tag or LATEST)
    if identity is None:
        return None
    lasting = sorted(each for each, owner in entries.items() if owner == identity)
    exact = tag if tag not in ("", LATEST) else None
    chosen = exact or next((each for each in lasting if each != LATEST), LATEST)
    return identity, f"{name}:{chosen}"


def resolve_image(api: CrusoeApi, request: ImageRequest) -> Printed:
    """Resolve a tag to its `id` now, and an `image` whose tag keeps that meaning."""
    found = _resolve(_image_tags(api, request.api.location), request.image)
    if found is None:
        raise DeviceError(fault_text(__file__, "no-image", request=request))
    return {"id": found[0], "image": found[1]}


def _capacity(api: CrusoeApi, request: PreflightRequest, new: Counter[str]) -> Iterator[str]:
    """Check that the location has enough free machines of each type."""
    for kind, count in sorted(new.items()):
        there = sum(int(str(each.get("quantity", 0))) for each in _of_type(api, request, kind))
        if there < count:
            words = {"api": request.api, "there": there, "kind": kind, "count": count}
            yield fault_text(__file__, "capacity", **words)


def _of_type(api: CrusoeApi, request: PreflightRequest, kind: str) -> list[Document]:
    query = [("product_name", kind), ("location", request.api.location)]
    return [each for each in api.list_items("/capacities", query) if each.get("type") == kind]


def _quota(api: CrusoeApi, request: PreflightRequest, new: Counter[str]) -> Iterator[str]:
    """Check that the project's free quota covers the new instances.

    We read the API so: one instance of a type takes `num_slices` from the quota `quota_type`.
    """
    if not new:
        return
    quotas = documents_of(api.get(api.below_project("quotas")).get("quotas"))
    free = {str(each.get("type")): int(str(each.get("available", 0))) for each in quotas}
    needed: Counter[str] = Counter()
    for kind, count in sorted(new.items()):
        for each in _of_type(api, request, kind)[:1]:
            needed[str(each.get("quota_type"))] += count * int(str(each.get("num_slices") or 1))
    for quota, count in sorted(needed.items()):
        if quota in free and free[quota] < count:
            yield fault_text(__file__, "quota", free=free[quota], quota=quota, count=count)


def _infiniband(
    api: CrusoeApi, request: PreflightRequest, new: Counter[str], there: _There
) -> Iterator[str]:
    """Check that one IB network has slices for all new workers; existing ones fix the network."""
    count = new[request.slice_type]
    if not request.slice_type or not count:
        return
    where = f"IB network of {request.api.location} for {request.slice_type}"
    if not request.partition:
        raise Bug("instances on InfiniBand without a partition passed the checks")
    free = ib_capacity(api, request.api.location, request.slice_type)
    for partition in there["ib-partition"]:
        if partition.name == request.partition:  # new workers need the network of the others
            network = partition.settings["network"]
            free = {network: free.get(network, 0)}
    needed = request.slices * count
    if not free:
        yield f"the cloud offers no {where}: choose another location or type."
    elif max(free.values()) < needed:
        words = {"network": where, "needed": needed, "count": count, "most": max(free.values())}
        yield fault_text(__file__, "slices", request=request, **words)


def sweep(api: CrusoeApi, request: PreflightRequest, previous: Printed) -> Printed:
    """Delete the objects that still have claimed names, after the other steps removed theirs."""
    planned = {_name(claim): claim for claim in request.claims}
    names = {*planned, *_claimed(previous)}
    gone: list[str] = []
    for kind in _ORDER:
        if not any(name.startswith(f"{kind}/") for name in names):
            continue
        for item in list_kind(api, KINDS[kind]):
            name = f"{kind}/{item.name}"
            wanted = planned[name].settings if name in planned else {}
            if name in names and wanted.items() <= item.settings.items():
                delete(api, KINDS[kind], item.name, item.id)
                gone.append(name)
    return {"swept": ",".join(gone)}
