"""All rules, in the order of the reference: each function `check_…` of these modules is one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from components.checks import site_files
from components.checks.rule import Rule, rule_of

_MODULES: Final = (
    "packets",
    "cabling",
    "links",
    "routing",
    "rail_leaves",
    "capability",
    "lacks",
    "asked",
    "naming",
    "addresses",
    "access",
    "machines",
    "vfs",
    "drivers",
    "gpu_drivers",
    "kernel",
    "plugins",
    "pod_networks",
    "partitions",
    "operators",
    "hypervisors",
    "software",
    "planes",
    "logins",
    "jobs",
    "sources",
    "cloud",
    "infiniband",
)
"""The modules of this folder that have rules, in the order of the reference."""


def _rules_of(name: str) -> Iterator[Rule]:
    module = import_module(f"components.checks.{name}")
    yield from getattr(module, "RULES", ())
    for key, check in vars(module).items():
        if key.startswith("check_") and check.__module__ == module.__name__:
            yield rule_of(check)


RULES: Final = tuple(rule for name in _MODULES for rule in _rules_of(name))
"""The rules on a spec."""


@dataclass(frozen=True, slots=True)
class FileRule:
    """What is demanded of the file itself, before there is a spec."""

    name: str
    text: str


FILE_RULES: Final = (
    FileRule("yaml-syntax", "The file is one YAML document."),
    FileRule("duplicate-key", "No key is written twice in one mapping; one of them would be lost."),
    FileRule("missing-key", "A key without a default is there."),
    FileRule("unknown-key", "Every key is known; a misspelt key would silently do nothing."),
    FileRule(
        "wrong-type",
        "A value is of the expected kind. A number in quotes is a text here, and `yes` is no "
        "truth value.",
    ),
    FileRule("unknown-choice", "Where there are a few choices, the value is one of them."),
    FileRule("out-of-range", "A number, or the length of a list, is within the limits of its key."),
    FileRule(
        "malformed",
        "A value has the form of its key, and is one that its key can have: a name, an address, a "
        "host key, a version, an image, a kernel setting. The JSON schema of `railyard schema` has "
        "the same limits, so that an editor shows them.",
    ),
    FileRule(
        "port-range",
        "A range of ports, `swp1-16: gpu[01-16]/rail-0`, runs from one whole port of the model to "
        "a later one, overlaps no other entry, and has one end of a cable for each port.",
    ),
    FileRule(
        "site-file",
        "`railyard:site` of a stack names a site that may be read. The path is relative to the "
        "stack's file and leads to a file in the folder of the Pulumi project, also through "
        "symbolic links: a pull request must not make a run read other files of the machine. A "
        "stack has either `railyard:site` or `railyard:cluster`.",
    ),
    FileRule(
        "example-value",
        "No line has the mark `# CHANGE: …` any more. `railyard init` writes it on each value of "
        "an example that is another one on every site, such as addresses, host keys and PCI "
        "addresses; a value that happens to be right stays, and its mark goes.",
    ),
    FileRule("secret-value", inspect.getdoc(site_files.check_secret_value) or ""),
    FileRule(
        "waiver",
        """A waiver names a rule that may be wrong for a site's hardware, and hides something.

`waive: {numa-leaf: "two leaves, as the vendor's reference design has them"}` goes without a rule.
Every report shows the waiver with its reason: `check`, the preview, the plan and the acceptance
report. Rules of safety, and those without which no plan can be made, cannot be waived; this page
says so of each.""",
    ),
    FileRule("lock-file", "The lock beside the site is one that `railyard pin` wrote."),
    FileRule("lock-entry", inspect.getdoc(site_files.check_lock_entry) or ""),
    FileRule("bundle", inspect.getdoc(site_files.check_bundle) or ""),
    FileRule("project-path", inspect.getdoc(site_files.check_project_path) or ""),
    FileRule("stack-key", inspect.getdoc(site_files.check_stack_key) or ""),
)
"""The rules on the text, and on the stack file around the site."""
