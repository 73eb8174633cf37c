"""The names of the secrets that a site needs of its stack; never their values."""

from __future__ import annotations

from components.checks.access import list_secrets
from components.model.cluster import ClusterSpec


def secret_names(spec: ClusterSpec) -> tuple[str, ...]:
    """Every secret of the stack that the file refers to, sorted, once each."""
    return tuple(sorted({own for reference, _ in list_secrets(spec) if (own := reference.secret)}))
