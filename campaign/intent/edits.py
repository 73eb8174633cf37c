"""Random edits of a site file, as people make them: each changes a site and says what it did."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from campaign.intent.schema import sample_key
from campaign.intent.sites import Site, made_key

Edit = Callable[[random.Random, Site], str]
"""Changes the site; what it did in words, or an empty text if the site has nothing to change."""
Part = dict[str, Any]
"""A mapping of the file: a host, a switch, a rail."""
SAID: Final = 0.4
"""Share of the renames that the file says, as `railyard rename` writes it."""
_UNITS: Final = ("hosts", "switches")


def edit_site(chance: random.Random, site: Site) -> str:
    """Make one random edit.

    Returns:
        What was done, in words.
    """
    for _ in range(20):
        edit = chance.choices([*EDITS], [*EDITS.values()])[0]
        if words := edit(chance, site):
            return words
    return ""


def _all(site: Part, part: str) -> list[Part]:
    return cast("list[Part]", site.get(part) or [])


def _within(value: object) -> Part:
    """A mapping as it is, and an empty one for anything else."""
    return cast("Part", value) if isinstance(value, dict) else {}


def _named(chance: random.Random, site: Site, part: str) -> Part | None:
    found = _all(site, part)
    return chance.choice(found) if found else None


def replace_name(value: Any, old: str, new: str) -> Any:  # noqa: ANN401 - any part of a site
    """The same with a device called otherwise, also in `gpu01/rail-0` and `leaf-01:swp1`."""
    if isinstance(value, dict):
        body = cast("Part", value)
        return {_word(key, old, new): replace_name(each, old, new) for key, each in body.items()}
    if isinstance(value, list):
        return [replace_name(each, old, new) for each in cast("list[Any]", value)]
    return _word(value, old, new) if isinstance(value, str) else value


def _word(text: str, old: str, new: str) -> str:
    begins = text.startswith((f"{old}/", f"{old}:"))
    return new + text[len(old) :] if text == old or begins else text


def rename(part: str) -> Edit:
    """A device gets another name everywhere in the file: the commonest edit that destroys."""

    def edit(chance: random.Random, site: Site) -> str:
        device = _named(chance, site, part)
        if device is None:
            return ""
        old = str(device["name"])
        new = chance.choice([f"{old}x", f"n{old}", old[:-1] + str(chance.randint(5, 9))])
        changed = replace_name({key: site[key] for key in site}, old, new)
        site.clear()
        site.update(changed)
        said = chance.random() < SAID and _say_renamed(site, part, old, new)
        return f"rename {part.removesuffix('es' if part == 'switches' else 's')} {old} to {new}" + (
            ", and `renamed` says so" if said else ""
        )

    return edit


def _say_renamed(site: Site, part: str, old: str, new: str) -> bool:
    """What `railyard rename` writes beside the name: the state keeps the device, and its node."""
    renamed = cast("Part", site.setdefault("renamed", {}))
    entries = cast("dict[str, str]", renamed.setdefault(part, {}))
    entries[new] = entries.pop(old, old)
    for host in _all(site, "hosts") if part == "hosts" else ():
        if host.get("name") == new and host.get("role") in {"worker", "control_plane"}:
            host.setdefault("node_name", old)
    return True


def _address_of(device: Part) -> Part:
    return _within(device.get("ssh"))


def move(chance: random.Random, site: Site) -> str:
    """A device gets another address, with the key of another machine or with its own."""
    device = _named(chance, site, chance.choice(_UNITS))
    if device is None or not (ssh := _address_of(device)):
        return ""
    old = ssh.get("address")
    ssh["address"] = f"127.41.9.{chance.randint(2, 250)}"
    if other := chance.random() < 0.6:  # noqa: PLR2004 - more often another machine
        ssh["host_key"] = made_key(str(ssh["address"]))
    machine = "another machine" if other else "with its own key"
    return f"move {device['name']} from {old} to {ssh['address']}, {machine}"


def swap(chance: random.Random, site: Site) -> str:
    """The `ssh` blocks of two devices are exchanged, as a slip of copy and paste does."""
    part = chance.choice(_UNITS)
    found = [each for each in _all(site, part) if _address_of(each)]
    if len(found) < 2:  # noqa: PLR2004 - two are exchanged
        return ""
    one, other = chance.sample(found, 2)
    one["ssh"], other["ssh"] = other["ssh"], one["ssh"]
    return f"swap ssh of {one['name']} and {other['name']}"


def drop_host(chance: random.Random, site: Site) -> str:
    """A host leaves the file, with or without the ports that name it."""
    host = _named(chance, site, "hosts")
    if host is None:
        return ""
    site["hosts"] = [each for each in site["hosts"] if each is not host]
    _forget_ports(site, f"{host['name']}/")
    return f"drop host {host['name']}"


def drop_role(chance: random.Random, site: Site) -> str:
    """All hosts of one role leave the file, as a wrong merge does."""
    role = chance.choice(["worker", "control_plane"])
    gone = [each for each in _all(site, "hosts") if each.get("role") == role]
    if not gone:
        return ""
    gone = gone[: chance.randint(1, len(gone))]
    site["hosts"] = [each for each in _all(site, "hosts") if each not in gone]
    for host in gone:
        _forget_ports(site, f"{host['name']}/")
    return f"drop hosts {', '.join(str(each['name']) for each in gone)}"


def drop_switch(chance: random.Random, site: Site) -> str:
    """A switch leaves the file, and with it the ports of others that lead to it."""
    switch = _named(chance, site, "switches")
    if switch is None:
        return ""
    site["switches"] = [each for each in site["switches"] if each is not switch]
    _forget_ports(site, f"{switch['name']}:")
    return f"drop switch {switch['name']}"


def _forget_ports(site: Site, begins: str) -> None:
    for switch in _all(site, "switches"):
        ports = _within(switch.get("ports"))
        for name, port in [*ports.items()]:
            to = _within(port).get("to", port)
            if isinstance(to, str) and to.startswith(begins):
                del ports[name]


def drop_port(chance: random.Random, site: Site) -> str:
    """One port of a switch is taken out of the file."""
    switch = _named(chance, site, "switches")
    ports = _within((switch or {}).get("ports"))
    if switch is None or not ports:
        return ""
    name = chance.choice([*ports])
    del ports[name]
    return f"drop port {name} of {switch['name']}"


def drop_section(chance: random.Random, site: Site) -> str:
    """A whole section goes, as a wrong merge does."""
    parts = ["switches", "kubernetes", "operators", "pod_network", "jobs", "host_defaults"]
    wanted = chance.choice([*parts, "acceptance"])
    gone = [wanted]
    if wanted == "kubernetes":
        gone += ["operators", "pod_network", "jobs", "acceptance"]
    dropped = [key for key in gone if site.pop(key, None) is not None]
    return f"drop {', '.join(dropped)}" if dropped else ""


def add_host(chance: random.Random, site: Site) -> str:
    """Another host like one that is there, cabled to free ports beside those of the first."""
    host = _named(chance, site, "hosts")
    if host is None or not _address_of(host):
        return ""
    name = f"new{chance.randint(10, 99)}"
    made: Part = copy.deepcopy(host) | {"name": name}
    address = f"127.41.8.{chance.randint(2, 250)}"
    _address_of(made).update({"address": address, "host_key": made_key(address)})
    for nic in _all(made, "nics"):
        for key in ("address", "serial"):
            nic.pop(key, None)
    site["hosts"].append(made)
    for switch in _all(site, "switches"):
        _cable(switch, str(host["name"]), name)
    return f"add host {name} like {host['name']}"


def _cable(switch: Part, like: str, name: str) -> None:
    ports = _within(switch.get("ports"))
    for port, to in [*ports.items()]:
        text = _within(to).get("to", to)
        if not (isinstance(text, str) and text.startswith(f"{like}/")):
            continue
        free = _free_port(port, ports)
        end = f"{name}/{text.partition('/')[2]}"
        own = _within(to)
        ports[free] = {**own, "to": end} if own else end


def _free_port(port: str, ports: Part) -> str:
    digits = "".join(each for each in port.rpartition("/")[2] if each.isdigit())
    head = port[: len(port) - len(digits)]
    number = int(digits or "1")
    while f"{head}{number}" in ports:
        number += 1 if "/" in port else 4
    return f"{head}{number}"


def change_vlan(chance: random.Random, site: Site) -> str:
    """A rail gets another VLAN."""
    rail = _named(chance, site, "rails")
    if rail is None or "vlan" not in rail:
        return ""
    old, rail["vlan"] = rail["vlan"], chance.choice([rail["vlan"] + 100, chance.randint(2, 4094)])
    return f"VLAN of {rail['name']} {old} to {rail['vlan']}"


def change_rdma(chance: random.Random, site: Site) -> str:
    """The whole fabric gets another class, size or mode."""
    rdma = cast("Part", site.get("rdma") or {})
    wanted: dict[str, list[object]] = {
        "dscp": [24, 26, 34],
        "cnp_dscp": [48, 46],
        "priority": [3, 4, 5],
        "mtu_bytes": [1500, 4200, 9000],
        "port_mtu_bytes": [4500, 9100, 9214, 9216],
        "mode": ["lossless", "lossy_ecn"],
        "ecn_min_kib": [100, 150, 600],
        "ecn_max_kib": [1500, 3000],
    }
    key = chance.choice([*wanted])
    old, rdma[key] = rdma.get(key), chance.choice(wanted[key])
    return "" if old == rdma[key] else f"rdma.{key} {old} to {rdma[key]}"


def change_policy(chance: random.Random, site: Site) -> str:
    """What the file allows."""
    key = chance.choice(["ports", "reboots"])
    disruption = cast("Part", site.setdefault("disruption", {}))
    old, disruption[key] = disruption.get(key), chance.choice(["allow", "deny"])
    return "" if old == disruption[key] else f"disruption.{key} {old} to {disruption[key]}"


def change_key(chance: random.Random, site: Site) -> str:
    """Any key of the schema, at any place where it may stand, gets another value or goes."""
    places = [*_places(site, ())]
    path, part = chance.choice(places)
    if chance.random() < 0.2 and part:  # noqa: PLR2004 - sometimes a key goes
        key = chance.choice([*part])
        old = part.pop(key)
        return f"remove {_render(path, key)} = {json.dumps(old)[:60]}"
    found = sample_key(chance, path, part)
    if found is None:
        return ""
    key, value = found
    old, part[key] = part.get(key), value
    words = f"{_render(path, key)} {json.dumps(old)[:60]} to {json.dumps(value)[:60]}"
    return "" if old == value else words


def _render(path: tuple[str | int, ...], key: str) -> str:
    return ".".join(map(str, (*path, key)))


def _places(
    value: object, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Part]]:
    if isinstance(value, dict):
        body = cast("Part", value)
        yield path, body
        for key, each in body.items():
            yield from _places(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(cast("list[object]", value)):
            yield from _places(each, (*path, number))


EDITS: Final[dict[Edit, int]] = {
    rename("hosts"): 14,
    rename("switches"): 8,
    move: 8,
    swap: 8,
    drop_host: 8,
    drop_role: 5,
    drop_switch: 6,
    drop_port: 4,
    drop_section: 5,
    add_host: 5,
    change_vlan: 6,
    change_rdma: 8,
    change_policy: 5,
    change_key: 30,
}
"""How often each is made."""
