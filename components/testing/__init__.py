"""Test programs that use Railyard: run one without an engine, and inspect what it registers.

`docs/howto/test-your-stack.md` has an example. The product itself never imports this package.
"""

from __future__ import annotations

from components.testing.engine import (
    SECRET_KEY,
    UNKNOWN,
    Graph,
    Recorded,
    Run,
    is_secret,
    record_program,
    record_refusal,
    unwrap,
    unwrap_all,
)

__all__ = [
    "SECRET_KEY", "UNKNOWN", "Graph", "Recorded", "Run", "is_secret", "record_program",
    "record_refusal", "unwrap", "unwrap_all",
]  # fmt: skip
