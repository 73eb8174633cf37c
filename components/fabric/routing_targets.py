"""The part of `targets` that is routing: addresses of interfaces, and BGP; pure."""

from __future__ import annotations

from components.fabric.state import MTU_WORD, BgpState, first

Addresses = dict[str, tuple[str, ...]]


def join_addresses(actual: Addresses | None, desired: Addresses | None) -> Addresses | None:
    """The wanted addresses, and on the same interfaces those of others."""
    if desired is None:
        return None
    held = actual or {}
    return {name: _merge(held.get(name, ()), wanted) for name, wanted in desired.items()}


def join_bgp(actual: BgpState | None, desired: BgpState | None) -> BgpState | None:
    """The wanted numbers, and beside the wanted neighbours and networks those of others."""
    if desired is None:
        return None
    held = actual or BgpState()
    return desired.model_copy(
        update={
            "neighbors": {**held.neighbors, **desired.neighbors},
            "networks": _merge(held.networks, desired.networks),
            "bfd": _merge(held.bfd, desired.bfd),
        }
    )


def restore_addresses(
    actual: Addresses | None, owned: Addresses | None, baseline: Addresses | None
) -> Addresses | None:
    """The addresses of our interfaces after an undo."""
    if owned is None:
        return None
    held, before = actual or {}, baseline or {}
    return {
        name: _left_address(held.get(name, ()), ours, before.get(name, ()))
        for name, ours in owned.items()
    }


def _left_address(
    held: tuple[str, ...], ours: tuple[str, ...], before: tuple[str, ...]
) -> tuple[str, ...]:
    """An interface has one MTU: where we brought another, the one of before comes back."""
    mtus = [each for each in before if each.startswith(MTU_WORD)]
    replaced = any(each.startswith(MTU_WORD) for each in ours)
    return _merge(_left(held, ours, before), tuple(mtus) if replaced else ())


def restore_bgp(
    actual: BgpState | None, owned: BgpState | None, baseline: BgpState | None
) -> BgpState | None:
    """What BGP shall have after an undo: what is not ours stays."""
    if owned is None:
        return None
    held, before = actual or BgpState(), baseline or BgpState()
    return BgpState(
        asn=before.asn if owned.asn is not None else held.asn,
        router_id=before.router_id if owned.router_id is not None else held.router_id,
        neighbors={
            name: before.neighbors[name] if name in owned.neighbors else asn
            for name, asn in held.neighbors.items()
            if name not in owned.neighbors or name in before.neighbors
        },
        networks=_left(held.networks, owned.networks, before.networks),
        bfd=_left(held.bfd, owned.bfd, before.bfd),
        max_paths=None if owned.max_paths is None else before.max_paths or 0,
        forwards=None if owned.forwards is None else before.forwards or False,
    )


def _left(held: tuple[str, ...], ours: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """What is there without what only we brought."""
    gone = {*ours} - {*before}
    return tuple(each for each in held if each not in gone)


def drop_addresses(previous: Addresses, desired: Addresses) -> Addresses | None:
    """The addresses that are no longer wanted; None: all are."""
    gone = {
        name: tuple(each for each in held if each not in desired.get(name, ()))
        for name, held in previous.items()
    }
    return {name: held for name, held in gone.items() if held} or None


def drop_bgp(previous: BgpState | None, desired: BgpState | None) -> BgpState | None:
    """What of BGP is no longer wanted; None: nothing."""
    if previous is None or desired is None:
        return previous
    gone = BgpState(
        neighbors={
            name: asn for name, asn in previous.neighbors.items() if name not in desired.neighbors
        },
        networks=tuple(each for each in previous.networks if each not in desired.networks),
        bfd=tuple(each for each in previous.bfd if each not in desired.bfd),
    )
    return gone if gone != BgpState() else None


def overlay_addresses(base: Addresses | None, top: Addresses | None) -> Addresses | None:
    """What `top` says of an interface wins."""
    if base is None or top is None:
        return first(top, base)
    return {**base, **top}


def overlay_bgp(base: BgpState | None, top: BgpState | None) -> BgpState | None:
    """What `top` says wins; its lists are all there are."""
    if base is None or top is None:
        return first(top, base)
    return top.model_copy(
        update={
            "asn": first(top.asn, base.asn),
            "router_id": first(top.router_id, base.router_id),
            "max_paths": first(top.max_paths, base.max_paths),
            "forwards": first(top.forwards, base.forwards),
        }
    )


def _merge(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return (*one, *(each for each in other if each not in one))
