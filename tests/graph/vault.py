"""Secrets from anywhere but the stack's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi

SEALED = "from a vault"
"""What every secret begins with: it must be in no plain input."""


@dataclass
class Vault:
    """A source of secrets that remembers which ones it was asked for."""

    asked: set[str] = field(default_factory=set[str])

    def require_secret(self, key: str) -> pulumi.Output[str]:
        self.asked.add(key)
        return pulumi.Output.secret(f"{SEALED}: {key}")
