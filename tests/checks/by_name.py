"""The findings of one rule, by its name."""

from __future__ import annotations

from components.checks.registry import RULES
from components.core.problem import Finding
from components.model.cluster import ClusterSpec


def findings_of(name: str, spec: ClusterSpec) -> list[Finding]:
    (rule,) = (each for each in RULES if each.name == name)
    return [*rule.findings(spec)]
