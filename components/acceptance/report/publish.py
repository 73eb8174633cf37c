"""Publish results: metrics for Prometheus, and the node condition `RdmaRailProblem`.

The metrics are in the text exposition format 0.0.4, which the node exporter's textfile collector
and the Pushgateway read. All of them are gauges: a counter of Prometheus must never decrease, but a
run shows only what its own probes added. No text of a device becomes a label.

node-problem-detector defines the form (v1.36.0-alpha.3, pkg/types/types.go): a condition is a
problem, `True` says that the node has it, and the reason is one word. NVSentinel's own conditions
(platform-connectors, process_node_events.go and health_event.proto at 264bfab85e3c) have the type
with `IsHealthy` or `IsNotHealthy` as reason, and one `ErrorCode:… Rail:… … Recommended Action=…;`
for each fault. A condition in both forms is read by the tools of both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import Any, Final, cast, get_args
from urllib.parse import quote, urlsplit

from components.acceptance.evidence import Hop, Limits, ProbeKind, places_of
from components.acceptance.judge.site import Report
from components.acceptance.judge.verdict import Verdict
from components.acceptance.report.archive import write_whole
from components.core.errors import DeviceError
from components.core.limits import Deadline
from components.core.plain_text import one_line
from components.core.problem import Finding
from components.core.record import record
from components.core.templates import read_table
from components.kubernetes.client import Calls
from components.model.cluster import ClusterSpec

Place = tuple[str, str]
"""A host and its rail."""
Pair = tuple[str, str]
"""Name and value of a label."""
METRICS: Final[Mapping[str, str]] = read_table(__file__, "metrics")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"'})
PUSH_DEADLINE_S: Final = 30.0
"""For the whole push."""
_SAID: Final = 4096
"""Bytes of a refusal to read."""
TYPE: Final = "RdmaRailProblem"
HEALTHY: Final = "No Health Failures"
"""NVSentinel's message of a healthy condition."""
_ACTION: Final = "CONTACT_SUPPORT"
"""The action of NVSentinel that restarts and resets nothing: a person looks at the cable first."""
_LONGEST: Final = 200
_MOST: Final = 5
"""Faults in one message; `railyard audit` and the report have all."""
_TRIES: Final = 5


@record
class Sample:
    """One value of a metric."""

    name: str
    labels: Mapping[str, str]
    value: float


def render_metrics(site: str, samples: Iterable[Sample]) -> str:
    """Write the samples by metric, each metric after its help and type."""
    lines: dict[str, list[str]] = {name: [] for name in METRICS}
    for each in samples:
        pairs = {"site": site, **each.labels}.items()
        # Control characters are shown first: `\x1b` is no escape that Prometheus knows.
        labels = ",".join(f'{key}="{one_line(value).translate(_ESCAPES)}"' for key, value in pairs)
        number = int(each.value) if float(each.value).is_integer() else each.value
        lines[each.name].append(f"{each.name}{{{labels}}} {number}\n")
    return "".join(
        f"# HELP {name} {METRICS[name]}\n# TYPE {name} gauge\n{''.join(found)}"
        for name, found in lines.items()
        if found
    )


def audit_samples(read: Iterable[str], found: Iterable[Finding]) -> Iterator[Sample]:
    """Yield what an audit found; `read` are the devices that answered."""
    counts = Counter((each.device, each.rule) for each in found)
    silent = {device for device, kind in counts if kind == "unread"}
    for device in dict.fromkeys((*read, *silent)):
        yield Sample("railyard_device_read", {"device": device}, float(device not in silent))
    for (device, kind), count in sorted(counts.items()):
        if kind != "unread":
            yield Sample("railyard_deviations", {"device": device, "kind": kind}, count)


def proof_samples(report: Report) -> Iterator[Sample]:
    """Yield what acceptance found: verdicts, rails, and the counters of its probes.

    A collective over all hosts proves every rail that it used. If it fails, it accuses none: only
    the tests between two hosts do.
    """
    evidence = report.evidence
    verdicts = Counter(report.verdict_of(item.probe.name) for item in evidence.probes)
    for verdict in get_args(Verdict):
        yield Sample("railyard_probes", {"verdict": verdict}, verdicts[verdict])
    for (host, rail), is_good in sorted(_passed(report, {"perftest"}).items()):
        yield Sample("railyard_rail_passed", {"host": host, "rail": rail}, float(is_good))
    proven = {name: evidence.last_proofs.get(name, "") for name in evidence.places_left_out}
    for item in evidence.probes:
        is_good = report.verdict_of(item.probe.name) == "passed"
        for name in map(" ".join, places_of(item.probe)):
            before = proven.get(name, evidence.last_proofs.get(name, ""))
            proven[name] = evidence.finished_at if is_good else before
    for name, date in sorted(proven.items()):
        host, _, rail = name.partition(" ")
        then = datetime.fromisoformat(date or "1970-01-01T00:00Z")
        seconds = (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp()
        labels = {"host": host, "rail": rail}
        yield Sample("railyard_rail_last_proof_timestamp_seconds", labels, seconds)
    yield from _counters(report)


def _passed(report: Report, accusing: Collection[str]) -> dict[Place, bool]:
    """Whether the tests of each rail passed; of failed tests, only the kinds `accusing` count."""
    found: dict[Place, bool] = {}
    for item in report.evidence.probes:
        verdict = report.verdict_of(item.probe.name)
        counts = verdict == "passed" or (verdict != "skipped" and item.probe.kind in accusing)
        for place in places_of(item.probe) if counts else ():
            found[place] = found.get(place, True) and verdict == "passed"
    return found


def _counters(report: Report) -> Iterator[Sample]:
    """Yield the growth of counters; two hops of one reading, as of a ring, count once."""
    growth: dict[tuple[str, tuple[str, ...], tuple[Pair, ...]], int] = {}
    for item in report.evidence.probes:
        when = f"round {item.round}" if item.round else item.probe.name
        for hop in item.hops:
            slot = (when, hop.device, hop.interface, hop.rail)
            for name, count, *labels in _growth(hop, report.evidence.limits):
                key = (name, slot, tuple(labels))
                growth[key] = max(count, growth.get(key, 0))
    sums: Counter[tuple[str, tuple[Pair, ...]]] = Counter()
    for (name, (_, device, _, rail), labels), count in growth.items():
        sums[name, (("device", device), ("rail", rail), *labels)] += count
    for (name, labels), count in sorted(sums.items()):
        yield Sample(name, dict(labels), count)


def _growth(hop: Hop, limits: Limits) -> Iterator[tuple[str, int, *tuple[Pair, ...]]]:
    """Yield each metric of a port, its growth, and its own labels."""
    if hop.status in {"not_observed", "not_counted", "unreachable"}:
        yield "railyard_probe_hops_unobserved", 1
        return
    leaves = hop.role.endswith("_egress")
    wanted = limits.traffic_class if leaves else limits.priority
    way = ("direction", "sent" if leaves or hop.role == "sender_nic" else "received")
    for number, count in hop.bytes_by_class.items():
        planned = ("planned", "yes" if number == wanted else "no")
        yield "railyard_probe_bytes", count, way, ("class", str(number)), planned
    if hop.pause_frames is not None:
        for word, each in (("received", hop.pauses_received), ("sent", hop.pauses_sent)):
            yield "railyard_probe_pause_frames", sum(each.values()), ("direction", word)
    if hop.ecn_marked is not None:
        yield "railyard_probe_ecn_marked_packets", hop.ecn_marked
    losses = {
        "discards": hop.discards,
        "out_of_sequence": hop.out_of_sequence,
        "retransmissions": hop.retransmissions,
    }
    for counter, count in {**losses, **hop.errors}.items():
        if count is not None:
            yield "railyard_probe_errors", count, ("counter", counter)


def write_readable(path: Path, text: str) -> None:
    """Write a file whole for the node exporter, which reads only names in `.prom`; or OSError."""
    path.parent.stat()
    write_whole(path, text)
    path.chmod(0o644)


def push_metrics(gateway: str, site: str, text: str) -> None:
    """Replace the metrics of this site in a Pushgateway (README, "PUT method"); or DeviceError."""
    deadline, place = Deadline(PUSH_DEADLINE_S), urlsplit(gateway)
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    path = f"{place.path.rstrip('/')}/metrics/job/railyard/site/{quote(site, safe='')}"
    try:
        with closing(kind(place.netloc, timeout=PUSH_DEADLINE_S)) as connection:
            connection.connect()
            # A timeout of the socket would begin again with each byte of the answer.
            cut = Timer(deadline.left_s(), partial(socket.shutdown, connection.sock, SHUT_RDWR))
            cut.start()
            try:
                connection.request("PUT", path, text.encode())
                answer = connection.getresponse()
                deadline.left_s()
                said = b"" if answer.status < HTTPStatus.MULTIPLE_CHOICES else answer.read(_SAID)
            finally:
                cut.cancel()
    except (OSError, HTTPException) as error:
        late = deadline.clock() >= deadline.ends_at_s
        reason = f"no end within {PUSH_DEADLINE_S:g} s" if late else one_line(str(error))[:_LONGEST]
        raise DeviceError(f"the Pushgateway {gateway} did not answer: {reason}") from error
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        words = one_line(said.decode(errors="replace").strip())[:_LONGEST]
        raise DeviceError(f"the Pushgateway {gateway} refused the metrics: {answer.status} {words}")


@record
class RailFault:
    """One fault of a rail on a node."""

    code: str
    rail: str
    text: str

    def render(self) -> str:
        """The fault in NVSentinel's form; its own text cannot end it early."""
        text = one_line(self.text).replace(";", ",")
        text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        return f"ErrorCode:{self.code} Rail:{self.rail} {text} Recommended Action={_ACTION};"


def find_faults(
    spec: ClusterSpec, report: Report | None, deviations: Sequence[Finding]
) -> dict[str, tuple[RailFault, ...]]:
    """The faults of each worker's rails; empty for a worker that was read and is well.

    A worker is absent if a rail of it was not tested, or if a test failed and the fault may be at
    another part: its condition stays as it is.
    """
    found: dict[str, list[RailFault]] = {host.name: [] for host in spec.workers}
    for host, fault in _of_audit(spec, deviations):
        found[host].append(fault)
    rails = {host.name: [nic.rail for nic in host.nics] for host in spec.workers}
    for suspect in report.suspects if report else ():
        for kind, name in suspect.parts:
            host, _, rail = name.partition(" ")
            if kind in {"link", "gpu", "host", "gpus"} and host in rails:
                found[host] += [
                    RailFault(f"PROOF_{kind.upper()}", each, suspect.text)
                    for each in ([rail] if rail else rails[host])
                ]
    doubtful = {each.device for each in deviations if each.rule == "unread"}
    if report is not None:
        passed = _passed(report, get_args(ProbeKind))
        doubtful |= {
            host.name
            for host in spec.workers
            if not all(passed.get((host.name, nic.rail)) for nic in host.nics)
        }
    return {host: tuple(own) for host, own in found.items() if own or host not in doubtful}


def _of_audit(spec: ClusterSpec, deviations: Sequence[Finding]) -> Iterator[tuple[str, RailFault]]:
    """Yield the differences at a card of a rail, or at the switch port behind it."""
    names: dict[str, list[tuple[str, Place]]] = {host.name: [] for host in spec.workers}
    for host in spec.workers:
        for nic in host.nics:
            own = filter(None, (nic.netdev, nic.pci, nic.rdma, nic.rail))
            names[host.name] += [(name, (host.name, nic.rail)) for name in own]
    workers = {*names}
    for switch in spec.switches:
        ends = [(f"port {port}", each.to.partition("/")) for port, each in switch.ports.items()]
        names[switch.name] = [
            (name, (host, rail)) for name, (host, _, rail) in ends if host in workers and rail
        ]
    for each in deviations:
        places = {
            at
            for name, at in names.get(each.device, ())
            if re.search(rf"(?<![\w/:-]){re.escape(name)}(?![\w/:-]|\.\d)", each.what)
        }
        for host, rail in sorted(places) if each.rule != "unread" else ():
            yield host, RailFault(f"AUDIT_{each.rule.upper()}", rail, each.what)


def write_conditions(
    calls: Calls, spec: ClusterSpec, faults: Mapping[str, Sequence[RailFault]], now: datetime
) -> list[str]:
    """Write the condition of each node, and give a line for each one that could not be written."""
    nodes = {host.name: host.node for host in spec.workers}
    date, lines = now.isoformat(timespec="seconds").replace("+00:00", "Z"), list[str]()
    for host, own in faults.items():
        try:
            _write(calls, nodes[host], own, date)
        except DeviceError as error:
            lines.append(f"node {nodes[host]}: its condition {TYPE} was not written: {error}")
    return lines


def _write(calls: Calls, node: str, faults: Sequence[RailFault], now: str) -> None:
    """Replace our condition alone; if another program wrote meanwhile, read the node again."""
    path = f"/api/v1/nodes/{node}"
    for _ in range(_TRIES):
        answer = calls.call("GET", path)
        if answer.status == HTTPStatus.OK:
            body = dict(answer.body)
            status = dict(cast("Mapping[str, Any]", body.get("status") or {}))
            status["conditions"] = merged(status.get("conditions") or [], faults, now)
            answer = calls.call("PUT", f"{path}/status", {**body, "status": status})
        if answer.status == HTTPStatus.OK:
            return
        if answer.status != HTTPStatus.CONFLICT:
            raise DeviceError(answer.words)
    raise DeviceError(f"other programs changed the node {_TRIES} times meanwhile")


def merged(
    conditions: Iterable[Mapping[str, Any]], faults: Sequence[RailFault], now: str
) -> list[Mapping[str, Any]]:
    """A node's conditions with ours; its time of transition changes only with its status."""
    others = [each for each in conditions if each.get("type") != TYPE]
    before = next((each for each in conditions if each.get("type") == TYPE), dict[str, Any]())
    status = "True" if faults else "False"
    same = before.get("status") == status
    more = f"and {len(faults) - _MOST} more" if len(faults) > _MOST else ""
    own: Mapping[str, Any] = {
        "type": TYPE,
        "status": status,
        "reason": f"{TYPE}{'IsNotHealthy' if faults else 'IsHealthy'}",
        "message": "".join(each.render() for each in faults[:_MOST]) + more or HEALTHY,
        "lastHeartbeatTime": now,
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
    }
    return [*others, own]
