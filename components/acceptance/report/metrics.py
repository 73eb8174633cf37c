"""Results as metrics in Prometheus' text exposition format 0.0.4.

The node exporter's textfile collector and the Pushgateway read it. All of them are gauges: each run
replaces the values of the run before. A counter of Prometheus must never decrease, but a run shows
only what its own probes added. Label values are names of the site file, of our judges, or of known
counters. No text of a device becomes a label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, get_args

from components.acceptance.evidence import Hop, Limits, Probe
from components.acceptance.judge.site import Report
from components.acceptance.judge.verdict import Verdict
from components.core.plain_text import one_line

Labels = Mapping[str, str]
METRICS: Final[Mapping[str, str]] = {
    "railyard_run_timestamp_seconds": "When the run began, in seconds since 1970.",
    "railyard_run_duration_seconds": "Duration of a part of the run: audit or accept.",
    "railyard_run_success": "1 if a part of the run could judge everything, 0 if not.",
    "railyard_device_read": "1 if the audit read the device, 0 if it did not answer.",
    "railyard_deviations": "Differences between a device and the site file, by kind.",
    "railyard_probes": "Probes of the last acceptance, by verdict.",
    "railyard_rail_passed": "1 if the tests of a host's rail passed, 0 if one did not.",
    "railyard_rail_last_proof_timestamp_seconds": "When a host's rail last passed; 0 is never.",
    "railyard_probe_bytes": "Bytes of the probes by class; planned says if the plan wants it.",
    "railyard_probe_pause_frames": "PFC pause frames during the probes.",
    "railyard_probe_ecn_marked_packets": "Packets with an ECN mark during the probes.",
    "railyard_probe_errors": "Growth of an error or loss counter during the probes.",
    "railyard_probe_hops_unobserved": "Ports whose counters could not be read, by probe.",
}
"""Each metric with its help, in the order of the output."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric."""

    name: str
    labels: Labels
    value: float


def render_metrics(site: str, samples: Iterable[Sample]) -> str:
    """Write the samples by metric, each metric after its help and type."""
    lines: dict[str, list[str]] = {name: [] for name in METRICS}
    for each in samples:
        pairs = {"site": site, **each.labels}.items()
        labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in pairs)
        number = int(each.value) if float(each.value).is_integer() else each.value
        lines[each.name].append(f"{each.name}{{{labels}}} {number}\n")
    return "".join(
        f"# HELP {name} {METRICS[name]}\n# TYPE {name} gauge\n{''.join(found)}"
        for name, found in lines.items()
        if found
    )


def _escaped(value: str) -> str:
    r"""Show control characters first: `\x1b` is no escape that Prometheus knows."""
    return one_line(value).replace("\\", "\\\\").replace('"', '\\"')


def audit_samples(read: Iterable[str], found: Iterable[tuple[str, str]]) -> Iterator[Sample]:
    """Yield what an audit found.

    Args:
        read: The devices that answered.
        found: Device and kind of each deviation; `unread` is a device that did not answer.
    """
    counts = Counter(found)
    silent = {device for device, kind in counts if kind == "unread"}
    for device in dict.fromkeys((*read, *silent)):
        yield Sample("railyard_device_read", {"device": device}, float(device not in silent))
    for (device, kind), count in sorted(counts.items()):
        if kind != "unread":
            yield Sample("railyard_deviations", {"device": device, "kind": kind}, count)


def proof_samples(report: Report) -> Iterator[Sample]:
    """Yield what acceptance found: verdicts, rails, and the counters of its probes."""
    probes = report.evidence.probes
    verdicts = Counter(report.verdict_of(item.probe.name) for item in probes)
    for verdict in get_args(Verdict):
        yield Sample("railyard_probes", {"verdict": verdict}, verdicts[verdict])
    yield from _rails(report)
    yield from _Counted.of(report).samples()


Place = tuple[str, str]
"""A host and its rail, or a switch and the rail that crosses it."""


def _rails(report: Report) -> Iterator[Sample]:
    """Yield the verdict and the last proof of each rail of each host.

    A collective over all hosts proves every rail that it used. If it fails, it accuses none: only
    the tests between two hosts do.
    """
    evidence = report.evidence
    passed: dict[Place, bool] = {}
    proven: dict[Place, str] = {}
    for item in evidence.probes:
        verdict = report.verdict_of(item.probe.name)
        for place in places_of(item.probe):
            before = evidence.last_proofs.get(" ".join(place), "")
            now = evidence.finished_at if verdict == "passed" else before
            proven[place] = max(now, proven.get(place, before))
            if verdict == "passed" or (verdict != "skipped" and item.probe.kind == "perftest"):
                passed[place] = passed.get(place, True) and verdict == "passed"
    for name in evidence.places_left_out:
        host, _, rail = name.partition(" ")
        proven.setdefault((host, rail), evidence.last_proofs.get(name, ""))
    for (host, rail), is_good in sorted(passed.items()):
        yield Sample("railyard_rail_passed", {"host": host, "rail": rail}, float(is_good))
    for (host, rail), date in sorted(proven.items()):
        labels = {"host": host, "rail": rail}
        yield Sample("railyard_rail_last_proof_timestamp_seconds", labels, seconds_of(date))


def places_of(probe: Probe) -> tuple[Place, ...]:
    """The rails of hosts that a probe uses."""
    return tuple((node, rail) for rail in probe.rails for node in probe.nodes)


def seconds_of(date: str) -> float:
    """A date of evidence as seconds since 1970; 0 for none."""
    if not date:
        return 0.0
    then = datetime.fromisoformat(date)
    return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp()


_Slot = tuple[str, str, str, str]
"""A round or a probe, a device, an interface, and a rail: the key of one reading of counters."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Growth by reading and label; two hops of one reading, as of a ring, are counted once."""

    limits: Limits
    growth: dict[tuple[str, _Slot, tuple[Place, ...]], int] = field(
        default_factory=dict[tuple[str, _Slot, tuple[Place, ...]], int]
    )

    @classmethod
    def of(cls, report: Report) -> _Counted:
        found = cls(report.evidence.limits)
        for item in report.evidence.probes:
            when = f"round {item.round}" if item.round else item.probe.name
            for hop in item.hops:
                found.add((when, hop.device, hop.interface, hop.rail), hop)
        return found

    def add(self, slot: _Slot, hop: Hop) -> None:
        if hop.status in {"not_observed", "not_counted", "unreachable"}:
            self._keep("railyard_probe_hops_unobserved", slot, 1)
            return
        leaves = hop.role.endswith("_egress")
        wanted = self.limits.traffic_class if leaves else self.limits.priority
        way = ("direction", "sent" if leaves or hop.role == "sender_nic" else "received")
        for number, count in hop.bytes_by_class.items():
            planned = ("planned", "yes" if number == wanted else "no")
            self._keep("railyard_probe_bytes", slot, count, way, ("class", str(number)), planned)
        if hop.pause_frames is not None:
            for word, each in (("received", hop.pauses_received), ("sent", hop.pauses_sent)):
                count = sum(each.values())
                self._keep("railyard_probe_pause_frames", slot, count, ("direction", word))
        if hop.ecn_marked is not None:
            self._keep("railyard_probe_ecn_marked_packets", slot, hop.ecn_marked)
        losses = {
            "discards": hop.discards,
            "out_of_sequence": hop.out_of_sequence,
            "retransmissions": hop.retransmissions,
        }
        for counter, count in {**losses, **hop.errors}.items():
            if count is not None:
                self._keep("railyard_probe_errors", slot, count, ("counter", counter))

    def _keep(self, name: str, slot: _Slot, count: int, *labels: Place) -> None:
        key = (name, slot, labels)
        self.growth[key] = max(count, self.growth.get(key, 0))

    def samples(self) -> Iterator[Sample]:
        sums: Counter[tuple[str, tuple[Place, ...]]] = Counter()
        for (name, (_, device, _, rail), labels), count in self.growth.items():
            sums[name, (("device", device), ("rail", rail), *labels)] += count
        for (name, labels), count in sorted(sums.items()):
            yield Sample(name, dict(labels), count)
