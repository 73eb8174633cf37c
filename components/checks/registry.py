"""All rules, in the order of the reference, and waivers with the number of problems they hide."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from components.checks import site_files
from components.checks.rule import Finding, Findings, Rule, at, rule_of
from components.model.cluster import ClusterSpec
from components.reading.wording import did_you_mean

_MODULES: Final = (
    "packets", "cabling", "links", "routing", "capability", "lacks", "addresses",
    "access", "machines", "drivers", "gpu_drivers", "kernel", "pod_networks", "operators",
    "software", "planes", "jobs", "cloud", "infiniband",
)  # fmt: skip
"""The modules of this folder with rules, in the order of the reference."""


RULES: Final[tuple[Rule, ...]] = tuple(
    each
    for module in (import_module(f"components.checks.{name}") for name in _MODULES)
    for each in (
        *getattr(module, "RULES", ()),
        *(
            rule_of(check)
            for key, check in vars(module).items()
            if key.startswith("check_") and check.__module__ == module.__name__
        ),
    )
)
"""The rules on a spec."""


@dataclass(frozen=True, slots=True)
class FileRule:
    """A demand on the file itself, before it becomes a spec."""

    name: str
    text: str


_FILE_TEXTS: Final[Mapping[str, str]] = {
    "yaml-syntax": "The file is one YAML document.",
    "duplicate-key": "No key is written twice in one mapping; one of them would be lost.",
    "missing-key": "A key without a default is there.",
    "unknown-key": "Every key is known; a misspelt key would silently do nothing.",
    "wrong-type": "A value is of the expected kind. A number in quotes is a text here, and `yes` "
    "is no truth value.",
    "unknown-choice": "Where there are a few choices, the value is one of them.",
    "out-of-range": "A number, or the length of a list, is within the limits of its key.",
    "malformed": "A value has the form of its key: a name, an address, a host key, a version, an "
    "image, a kernel setting. The JSON schema of `railyard schema` has the same limits.",
    "port-range": "A range of ports, `swp1-16: gpu[01-16]/rail-0`, runs from one whole port of "
    "the model to a later one, overlaps no other entry, and has one end of a cable for each port.",
    "host-range": "A range of hosts, `name: gpu[01-16]`, counts upwards with numbers of one "
    "width, and shares no host with another entry. Each other range below its entry and its "
    "templates has as many values, and `each` names only hosts of the range. A file has at most "
    "4096 hosts.",
    "host-template": "The template that a host or another template takes is one of "
    "`host_templates`, none leads back to itself, and some host takes each of them.",
    "site-file": "`railyard:site` of a stack names a site that may be read. The path is relative "
    "to the stack's file and leads to a file in the folder of the Pulumi project, also through "
    "symbolic links: a pull request must not make a run read other files of the machine. A stack "
    "has either `railyard:site` or `railyard:cluster`.",
    "example-value": "No line has the mark `# CHANGE: …` any more. `railyard init` writes it on "
    "each value of an example that differs on every site; a right value stays, and its mark goes.",
    "secret-value": inspect.getdoc(site_files.check_secret_value) or "",
    "waiver": """A waiver names a rule that may be wrong for a site's hardware, and hides something.

`waive: {numa-leaf: "two leaves, as the vendor's reference design has them"}` goes without a rule.
Every report shows the waiver with its reason. Rules of safety, and those without which no plan can
be made, cannot be waived.""",
    "lock-file": "The lock beside the site is one that `railyard pin` wrote.",
    "lock-entry": inspect.getdoc(site_files.check_lock_entry) or "",
    "bundle": inspect.getdoc(site_files.check_bundle) or "",
    "project-path": inspect.getdoc(site_files.check_project_path) or "",
    "stack-key": inspect.getdoc(site_files.check_stack_key) or "",
}
FILE_RULES: Final = tuple(FileRule(name, text) for name, text in _FILE_TEXTS.items())
"""The rules on the text, and on the stack file around the site."""
UPDATE_RULES: Final = (
    FileRule("unpinned", inspect.getdoc(site_files.Unpinned) or ""),
    FileRule(
        "lab-parts",
        """A real site does not run on parts of the lab, and a stack of the lab has no real device.

The lab's plugins are stand-ins, its passphrase is public, and `make clean` deletes its states.
`check` of a stack file looks at engine, backend and passphrase as the update does.""",
    ),
)
"""What else an update refuses before it contacts a device: `check` reports it too."""


def rule_pages() -> Mapping[str, str]:
    """The name of each rule and the text of its page, in the order of the reference."""
    pages = {each.name: each.text.strip() for each in (*RULES, *FILE_RULES, *UPDATE_RULES)}
    ends = {name: f"\n\nIt cannot be waived: {why}." for name, why in NEVER_WAIVED.items()}
    return {name: text + ends.get(name, "") for name, text in pages.items()}


@dataclass(frozen=True, slots=True)
class Waived:
    """One valid waiver of the file."""

    rule: str
    reason: str
    hides: int
    """Number of problems and warnings that it hides."""

    def __str__(self) -> str:
        """The words of every report."""
        count = f"{self.hides} problem{'' if self.hides == 1 else 's'}"
        return f"waived: {self.rule} ({count} not reported): {self.reason}"


def waive(
    spec: ClusterSpec, problems: Sequence[Finding]
) -> tuple[list[Finding], tuple[Waived, ...]]:
    """Leave out problems of rules that the file waives.

    Returns:
        The other problems, and each valid waiver, in the order of the file.
    """
    valid = {rule: reason for rule, reason in spec.waive.items() if _why_not(rule) is None}
    kept = [problem for problem in problems if problem.rule not in valid]
    hidden = [problem.rule for problem in problems if problem.rule in valid]
    return kept, tuple(Waived(rule, why, hidden.count(rule)) for rule, why in valid.items())


def check_waiver(spec: ClusterSpec, waived: Sequence[Waived] | None) -> Findings:
    """Find invalid waivers, and those that hide nothing.

    `waived` are the problems that the waivers hide; None if some rules could not run.
    """
    for rule, reason in spec.waive.items():
        why = _why_not(rule)
        if why is not None:
            yield Finding(why, (at(("waive", rule), reason),), "remove the waiver.")
    for each in waived or ():
        if not each.hides:
            what = f"the waiver of {each.rule} hides nothing: the site keeps to that rule."
            fix = "remove the waiver, so that it does not hide a later mistake."
            yield Finding(what, (at(("waive", each.rule), each.reason),), fix, "warning")


def _why_not(rule: str) -> str | None:
    """Explain why a rule cannot be waived; None if it can."""
    if rule in NEVER_WAIVED:
        return f"{rule} cannot be waived: {NEVER_WAIVED[rule]}."
    names = [each.name for each in RULES]
    if rule in names:
        return None
    if rule in {each.name for each in FILE_RULES}:
        return f"{rule} cannot be waived: it says how the file is read."
    return f"the waiver names {rule!r}, which is no rule.{did_you_mean(rule, names)}"


_BY_REASON: Final[Mapping[str, str]] = {
    "it protects secrets, host keys, or who may reach the site": (
        "host-key credentials hypervisor-access registry-login jump-host exec-reach agent-token "
        "external-partition watch-secrets"
    ),
    "without it an update can cut off its own way to a device": (
        "management-port partition-key port-function api-from"
    ),
    "it holds what an update may interrupt": (
        "exec-disruptive max-unavailable ports-drain wave-order"
    ),
    "its values become parts of commands and of file names": (
        "resource-name network-name driver-package partition-name image-download container-image"
    ),
    "parts of another maker would get values that mean nothing there": "other-vendor",
    "no file has a checksum of zeros": "checksum-zeros",
    "Railyard cannot plan a site that breaks it": (
        "port-target nic-rail link-ends switch-transport exec-system duplicate-name duplicate-vlan "
        "duplicate-address duplicate-nic node-address subnet-overlap routed-port subnet-size "
        "cluster-networks host-group macvlan-master host-network esxi-release vm-host "
        "hypervisor-name vm-devices passthrough-device pf-address payload-choice container-hosts "
        "control-plane host-login instance-type cloud-hosts fabric-transport ib-partition "
        "partition-member deepspeed-workers driver-tag"
    ),
}
"""Reason to the rules that no site may waive for it."""
NEVER_WAIVED: Final[Mapping[str, str]] = {
    rule: why for why, rules in _BY_REASON.items() for rule in sorted(rules.split())
}
"""Rule to the reason. The rules on the file decide how it is read, and cannot be waived either."""
