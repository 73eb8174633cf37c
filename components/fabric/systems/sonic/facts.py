"""What community SONiC gives by default, and the names that we use in its tables.

Sources, with their commits: docs/explanation/sources.md#sonic.
"""

from __future__ import annotations

from typing import Final

MIN_RELEASE: Final = 202205
"""First branch whose buffermgrd makes lossless buffers for the priorities of `pfc_enable`
(sonic-swss, cfgmgr/buffermgr.cpp); in 202106 and 202111 they are always 3 and 4. The generic
config updater (`config apply-patch`), which an operator has beside us, is there from 202106 on."""
FACTORY_MTU_BYTES: Final = 9100
"""sonic-buildimage, config_samples.py and sonic-port.yang."""
MBIT_PER_GBIT: Final = 1000
"""`speed` of a port is in Mbit/s (sonic-port.yang)."""
BYTES_PER_KIB: Final = 1024
"""WRED thresholds are bytes (sonic-wred-profile.yang: `units bytes`)."""
DSCP_PER_PRIORITY: Final = 8
"""As on NICs and on the other switch systems, where DSCP 24 to 31 are priority 3."""
PRIORITIES: Final = range(8)
DSCPS: Final = range(64)
OUR_NAME: Final = "RAILYARD"
"""Name of each row that we add to a table: those of others, AZURE and the like, stay."""
LOSSLESS_PROFILE: Final = "pg_lossless_"
"""How buffermgrd names the profiles that it makes: `pg_lossless_400000_5m_profile`."""
DYNAMIC_PROFILE: Final = "NULL"
"""The profile of a lossless priority group in the dynamic buffer model (buffers_config.j2)."""
LOSSLESS_POOL: Final = "ingress_lossless_pool"
MARK_PERCENT: Final = "100"
"""Share of packets that are marked at the upper threshold where a profile does not say it: default
of sonic-wred-profile.yang."""


def parse_branch(text: str) -> int:
    """Read the branch of a release: `202405`, `202311.1`, `SONiC.202305.3-abc` give its number.

    A release without one, `master.1234`, is taken for newer than all (a guess).
    """
    for part in text.replace("-", ".").replace("_", ".").split("."):
        if len(part) in {6, 8} and part.isdigit() and part.startswith("20"):
            return int(part[:6])
    return NO_BRANCH if text.lower().startswith(("master", "sonic.master")) else 0


NO_BRANCH: Final = 999_999
"""Of a release that is no branch, such as master."""
