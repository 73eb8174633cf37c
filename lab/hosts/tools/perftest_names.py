"""Names of the perftest tools that the lab plays in containers."""

from __future__ import annotations

PERFTEST_NAMES = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
