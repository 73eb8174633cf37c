"""What Cumulus Linux gives by default and with its RoCE profiles: the numbers, and who says so.

All of docs/explanation/sources.md#cumulus: the defaults table and the transcripts of the vendor's
page on RDMA over Converged Ethernet, and its quick start guide.
"""

from __future__ import annotations

from typing import Final

MIN_RELEASE: Final = (5, 0)
"""First release whose default is NVUE; 4.4 had it as early access, switched off, 4.2 not at all."""
AUTO_SAVE: Final = "saves by itself"
"""In the words on the whole configuration of a switch whose `nv config apply` saves too."""
AUTO_SAVE_RELEASE: Final = (5, 9)
"""First release that does so unless the configuration says otherwise (NVUE reference)."""
FACTORY_MTU_BYTES: Final = 9216
ROCE_PRIORITY: Final = 3
CNP_PRIORITY: Final = 6
"""Served strictly, from DSCP 48 to 55."""
ECN_MIN_BYTES: Final = 150_000
ECN_MAX_BYTES: Final = 1_500_000
DSCP_PER_CLASS: Final = 8
"""The profile's own table: DSCP 24 to 31 are priority 3."""
MARKED_CLASSES: Final = frozenset({0, ROCE_PRIORITY})
"""`enabled-tc 0,3` of the profile."""
BYTES_PER_KIB: Final = 1024
ECN_MIN_KIB: Final = ECN_MIN_BYTES // BYTES_PER_KIB
"""146; `nv show qos roce` prints 146.48 KB."""
ECN_MAX_KIB: Final = ECN_MAX_BYTES // BYTES_PER_KIB
"""1464; printed as 1.43 MB."""
ECN_TOLERANCE: Final = 0.05
"""Share by which a file may miss the profile's thresholds: 150 KiB is 2.4 % more than 150,000
bytes, and the hardware itself rounds to 153 or 156 KiB."""
