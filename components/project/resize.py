"""The site of an example with other numbers of rails and hosts, or with hosts that were read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

import yaml

from components.catalogue.switches import find_model
from components.core.errors import UsageError
from components.core.problem import Json
from components.core.templates import fault_text
from components.core.yaml_lines import block, flow, item
from components.model.texts import fold_names
from components.reading.host_ranges import MOST_HOSTS
from components.reading.port_ranges import spread_document

_SLOTS: Final = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")
"""PCI buses of eight cards in a common server; the user corrects them, or `discover` reads them."""
_TEMPLATE: Final = "gpu"
"""Name of the first template that is written."""
_COUNTABLE: Final = "begin with dgx-roce, rail-optimised, mixed-fabric or shared-rdma"
_POOL: Final = r"(role: worker,.*count: )(\d+)"
"""The pool of workers of a cloud."""
_OF_CARDS: Final = ("rail", "pci", "netdev", "model", "speed_gbit_s", "numa")
_FEW: Final = 2
"""Up to this number, hosts are written out."""
Entry = dict[str, Any]


def resize(text: str, rails: int | None, hosts: int | None, found: Sequence[Entry] = ()) -> str:
    """Write the rails, ports and workers of a site again for other numbers.

    None keeps the example's number; `found` are workers that were read, in place of the example's,
    whose cards then give the number of rails. UsageError: the example has a form that cannot be
    counted up, or too few ports.
    """
    if any(count is not None and not 0 < count <= MOST_HOSTS for count in (rails, hosts)):
        raise UsageError(f"--rails and --hosts take 1 to {MOST_HOSTS}. Nothing was written.")
    site, workers = _read(text)
    own = len(site.get("rails", [])), len(workers)
    if not found and rails is None and not workers:
        return re.sub(_POOL, rf"\g<1>{hosts}", text) if hosts else text
    if not found and (own[0] if rails is None else rails, hosts or own[1]) == own:
        return text
    if not _is_alike(site, workers):
        words = {"name": site["name"], "countable": _COUNTABLE}
        raise UsageError(fault_text(__file__, "not-alike", **words))
    rails = rails or max((len(each["nics"]) for each in found), default=own[0])
    wanted = [_rail(site["rails"], number) for number in range(rails)]
    names = [rail["name"] for rail in wanted]
    new: list[Entry] = []
    for each in found:  # its cards are on the rails in the order of their PCI addresses
        cards = sorted(each["nics"], key=lambda card: card["pci"])
        new.append({**each, "nics": [{**card, "rail": r} for card, r in zip(cards, names)]})  # noqa: B905
    new = new or [
        _worker(workers[0], number, hosts or own[1], names) for number in range(hosts or own[1])
    ]
    head = f"# The example {site['name']} with {len(names)} rails and {len(new)} workers.\n"
    text = head + re.sub(r"\A(#.*\n)+", "", text)
    text = _with_ports(text, site, names, [each["name"] for each in new])
    text = _section(text, "rails", [f"  - {flow(rail)}" for rail in wanted])
    # The workers come below the other hosts, with templates if they are many.
    section = re.search(r"(?ms)^hosts:\n(.*?)(?=^\w)", text)
    entries = re.split(r"(?m)^(?=  - )", section[1]) if section else []
    others = [each for each in entries if "    role: worker\n" not in each]
    templates: dict[str, Entry] = {}
    new = [_short(host, new, templates) for host in new] if len(new) > _FEW else new
    lines = [line for each in others for line in each.splitlines()]
    lines += [f"  {line}" for host in _ranges(new) for line in item(host)]
    return _section(
        text, "hosts", lines, block("host_templates", {**templates}) if templates else []
    )


def _read(text: str) -> tuple[Entry, list[Entry]]:
    site: Entry = spread_document(yaml.safe_load(text))
    return site, [host for host in site.get("hosts", []) if host["role"] == "worker"]


def read_found(text: str) -> list[Entry]:
    """Read the hosts with cards from `railyard discover --format json`; UsageError without any."""
    try:
        hosts = [
            {
                "name": host["name"],
                "role": "worker",
                "ssh": host["ssh"],
                "gpus": len(host["gpus"]),
                "nics": [{k: card[k] for k in _OF_CARDS if card.get(k)} for card in host["cards"]],
            }
            for host in json.loads(text)["hosts"]
            if host["cards"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(fault_text(__file__, "not-discovered", error=error)) from error
    if not hosts:
        raise UsageError("no host in the file has cards.\n  fix    read the workers.")
    return hosts


def numbers_of(text: str) -> tuple[int, int]:
    """Count the rails and workers of an example; zero if their number cannot change."""
    site, workers = _read(text)
    if _is_alike(site, workers):
        return len(site["rails"]), len(workers)
    pool = re.search(_POOL, text)
    return 0, int(pool[2]) if pool else 0


def _is_alike(site: Entry, workers: Sequence[Entry]) -> bool:
    """Whether all workers, and all rails, have one form that can be counted up."""
    kinds = [{k: each for k, each in host.items() if k not in ("name", "ssh")} for host in workers]
    plain = site.get("switches") and site.get("rails") and "hypervisors" not in site["environment"]
    routed = any("leaves" in rail or "gateway" in rail for rail in site.get("rails", []))
    return bool(plain and kinds) and not routed and all(kind == kinds[0] for kind in kinds)


def _rail(rails: Sequence[Entry], number: int) -> Entry:
    """Return a rail of the example, or the next one after its last."""
    if number < len(rails):
        return dict(rails[number])
    last, more = rails[-1], number - len(rails) + 1
    network = IPv4Network(last["subnet"])
    first = network.network_address + more * network.num_addresses
    new = {**last, "name": f"{last['name'].rstrip('0123456789')}{number}"}
    new |= {"vlan": last["vlan"] + more, "subnet": f"{first}/{network.prefixlen}"}
    for key in ("resource", "network"):
        named = last[key].replace(str(last["vlan"]), str(new["vlan"]))
        new[key] = named if named != last[key] else f"{last[key]}_{number}"
    return new


def _worker(first: Entry, number: int, count: int, rails: Sequence[str]) -> Entry:
    begin = re.search(r"[0-9]+$", first["name"])
    start, width = (int(begin[0]), len(begin[0])) if begin else (1, 2)
    width = max(width, len(str(start + count - 1)))
    address, own = IPv4Address(first["ssh"]["address"]), first["nics"]
    network = IPv4Network(f"{address}/24", strict=False).network_address
    place = int(address) - int(network) - 1 + number  # without the .0 and .255 of a /24
    ssh = {**first["ssh"], "address": str(network + place // 254 * 256 + place % 254 + 1)}
    if first.get("gpus") == len(own):  # a GPU for each card
        first = {**first, "gpus": min(len(own), len(rails))}
    cards = [{**card, "rail": rail} for card, rail in zip(_cards(own, len(rails)), rails)]  # noqa: B905
    name = f"{first['name'].rstrip('0123456789')}{start + number:0{width}}"
    return {**first, "name": name, "ssh": ssh, "nics": cards}


def _cards(own: Sequence[Entry], count: int) -> list[Entry]:
    """Spread the example's cards over both processors, and add cards in free slots."""
    if count <= len(own):
        return [own[place * len(own) // count] for place in range(count)]
    known = {place * count // len(own): card for place, card in enumerate(own)}
    used = {card["pci"] for card in own}
    free = iter(pci for bus in _SLOTS if (pci := f"0000:{bus}:00.0") not in used)
    shared = {key: value for key, value in own[-1].items() if key != "netdev"}
    more = ({**shared, "pci": pci} for pci in free)
    try:
        return [known.get(p) or {**next(more), "numa": 2 * p // count} for p in range(count)]
    except StopIteration as error:
        raise UsageError(
            f"{count} rails are more than the cards of a host.\n  fix    write fewer."
        ) from error


def _with_ports(text: str, site: Entry, rails: Sequence[str], hosts: Sequence[str]) -> str:
    """Plug the hosts in again; a rail that the example lacks is beside one that it has."""
    known = [rail["name"] for rail in site["rails"]]
    home = {
        _target(end).partition("/")[2]: switch["name"]
        for switch in site["switches"]
        for end in switch["ports"].values()
    }
    for switch in site["switches"]:
        own = [r for n, r in enumerate(rails) if home[known[n % len(known)]] == switch["name"]]
        lines = "".join(f"      {line}\n" for line in _ports(switch, own, hosts))
        head = rf"(  - name: {switch['name']}\n(?:    .*\n)*?    ports:\n)(?:      .*\n)+"
        text = re.sub(head, lambda found, lines=lines: found[1] + lines, text)
    return text


def _target(port: Json) -> str:
    return str(port["to"] if isinstance(port, dict) else port)


def _ports(switch: Entry, rails: Sequence[str], hosts: Sequence[str]) -> list[str]:
    """Write the ports of a switch: a range for each rail, then its links to other switches."""
    ends: dict[str, Json] = switch["ports"]
    links = {port: end for port, end in ends.items() if ":" in _target(end)}
    form = next(end for end in ends.values() if ":" not in _target(end))
    model = find_model(switch["model"])
    known = [port for port in (model.ports[switch["os"]] if model else ()) if port not in links]
    if not rails:
        raise UsageError(fault_text(__file__, "no-rail", name=switch["name"], countable=_COUNTABLE))
    if (needed := len(rails) * len(hosts)) > len(known):
        counts = {"there": len(known), "hosts": len(hosts), "rails": len(rails), "needed": needed}
        words = {"name": switch["name"], "model": switch["model"]}
        raise UsageError(fault_text(__file__, "few-ports", **words, **counts))
    lines: dict[str, str] = {}
    folded = fold_names(hosts)
    for place, rail in enumerate(rails):
        ports = known[place * len(hosts) : (place + 1) * len(hosts)]
        if re.fullmatch(r"[^\[\]]+\[\d+-\d+\]", folded):
            lines[f"{ports[0]}-{ports[-1]}"] = f"{folded}/{rail}"
        else:
            lines |= {port: f"{host}/{rail}" for port, host in zip(ports, hosts, strict=True)}
    ends = {key: {**form, "to": to} if isinstance(form, dict) else to for key, to in lines.items()}
    return [f"{json.dumps(key)}: {flow(end)}" for key, end in {**ends, **links}.items()]


def _short(host: Entry, workers: Sequence[Entry], templates: dict[str, Entry]) -> Entry:
    """Move what hosts share into a template, and return what is left of one host."""
    alike = len({each["ssh"].get("host_key") for each in workers}) == 1
    own = ("address",) if alike else ("address", "host_key")
    shared = {key: each for key, each in host.items() if key != "name"}
    shared["ssh"] = {key: each for key, each in host["ssh"].items() if key not in own}
    number = len(templates) + 1
    name = next((name for name, each in templates.items() if each == shared), "")
    name = name or (f"{_TEMPLATE}-{number}" if templates else _TEMPLATE)
    templates[name] = shared
    login = {key: host["ssh"][key] for key in own if key in host["ssh"]}
    return {"name": host["name"], "template": name, "ssh": login}


def _ranges(hosts: Sequence[Entry]) -> list[Entry]:
    """Join entries that only count up in the name and in the last number of the address."""
    joined: list[list[Entry]] = []
    for host in hosts:
        alike = bool(joined) and joined[-1][0].get("template") == host.get("template", "")
        names = _folded([*joined[-1], host]) if alike and "host_key" not in host["ssh"] else (",",)
        if "," in "".join(names):
            joined.append([host])
        else:
            joined[-1].append(host)
    whole: list[Entry] = []
    for first, *others in joined:
        name, address = _folded([first, *others])
        whole.append({**first, "name": name, "ssh": {"address": address}} if others else first)
    return whole


def _folded(hosts: Sequence[Entry]) -> tuple[str, str]:
    addresses = (each["ssh"]["address"] for each in hosts)
    return fold_names(each["name"] for each in hosts), fold_names(addresses)


def _section(text: str, key: str, lines: Sequence[str], before: Sequence[str] = ()) -> str:
    new = "".join(f"{line}\n" for line in (*before, f"{key}:", *lines))
    return re.sub(rf"(?ms)^{key}:\n.*?(?=^\w)", lambda _: new, text, count=1)
