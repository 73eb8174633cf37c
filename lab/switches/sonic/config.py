"""The state of an emulated SONiC switch: CONFIG_DB running and saved, and counters.

Factory: a first boot writes one of the presets of config_samples.py (sonic-buildimage, branch
202405). `t1` routes every port and gives each a BGP session; most platforms start like this, also
the Z9332F. `l1` only has the ports; the lab starts with it, like a switch that a person prepared.
Sources: lab/sources.md#sonic.
"""

from __future__ import annotations

from typing import Final, Literal

from components.core.errors import UsageError
from components.core.record import record
from lab.switches import stored

Fields = dict[str, str]
Table = dict[str, Fields]
Db = dict[str, Table]

FACTORY_MTU: Final = "9100"
RELEASE: Final = "SONiC.202405.1-3f2b7c1e0"
SAVED_FILE: Final = "/etc/sonic/config_db.json"
VERSION_FILE: Final = "/etc/sonic/sonic_version.yml"
RELOAD_LOCK: Final = "/etc/sonic/reload.lock"


@record
class Platform:
    """One hardware model, from its folder in sonic-buildimage."""

    platform: str
    hwsku: str
    alias: str
    first_lanes: tuple[int, ...]
    """First lane of each port, in the order of the front panel."""
    speed_gbit_s: int
    lanes: int
    groups: tuple[tuple[str, str, str, str], ...]
    """`pg_profile_lookup.ini` of that speed: cable, size, xon, xoff."""
    threshold: str
    pools: Db


_BLOCKS: Final = (33, 41, 49, 57, 65, 73, 81, 89, 1, 9, 17, 25, 97, 105, 113, 121)
_BLOCKS_2: Final = (129, 137, 145, 153, 225, 233, 241, 249, 161, 169, 177, 185, 193, 201, 209, 217)
_Z9664F: Final = (
    *(5, 9, 17, 25, 33, 41, 49, 57, 65, 73, 81, 89, 97, 105, 117, 121),
    *(141, 129, 157, 149, 173, 165, 189, 181, 205, 197, 221, 213, 237, 229, 249, 245),
    *(13, 1, 29, 21, 45, 37, 61, 53, 77, 69, 93, 85, 109, 101, 125, 113),
    *(133, 137, 145, 153, 161, 169, 177, 185, 193, 201, 209, 217, 225, 233, 241, 253),
)
_Z9864F: Final = (
    *(1, 17, 33, 49, 65, 81, 97, 113, 129, 145, 161, 177, 193, 209, 233, 249),
    *(257, 273, 297, 313, 329, 345, 361, 377, 393, 409, 425, 441, 457, 473, 489, 505),
    *(25, 9, 57, 41, 89, 73, 121, 105, 153, 137, 185, 169, 217, 201, 241, 225),
    *(281, 265, 305, 289, 337, 321, 369, 353, 401, 385, 433, 417, 465, 449, 497, 481),
)


def _pools(
    xoff: str, sizes: tuple[str, ...], shares: tuple[str, ...], lossy: tuple[str, str]
) -> Db:
    """`buffers_defaults_t0.j2` of a board.

    Args:
        xoff: Headroom.
        sizes: Sizes of the ingress and egress pools; a single one if they are equal.
        shares: Shares of lossy ingress and lossless egress traffic; also a single one if equal.
        lossy: Size and share of lossy egress traffic.
    """
    pool = {"size": sizes[0], "type": "ingress", "mode": "dynamic", "xoff": xoff}
    inside, outside = {"pool": "ingress_lossless_pool"}, {"pool": "egress_lossless_pool"}
    return {
        "BUFFER_POOL": {
            "ingress_lossless_pool": pool,
            "egress_lossless_pool": {"size": sizes[-1], "type": "egress", "mode": "static"},
        },
        "BUFFER_PROFILE": {
            "ingress_lossy_profile": {**inside, "size": "0", "static_th": shares[0]},
            "egress_lossless_profile": {**outside, "size": "0", "static_th": shares[-1]},
            "egress_lossy_profile": {**outside, "size": lossy[0], "dynamic_th": lossy[1]},
        },
    }


PLATFORMS: Final = {
    "Z9664F": Platform(
        platform="x86_64-dell_z9664f-r0",
        hwsku="DellEMC-Z9664f-O64",
        alias="fourhundredGigE1/{number}",
        first_lanes=_Z9664F,
        speed_gbit_s=400,
        lanes=4,
        groups=(
            ("5m", "9144", "9144", "371348"),
            ("40m", "9144", "9144", "424434"),
            ("300m", "9144", "9144", "817372"),
        ),
        threshold="0",
        pools=_pools(
            "50653696", ("113620296", "113620296"), ("113620296", "113620296"), ("0", "2")
        ),
    ),
    "Z9864F": Platform(
        platform="x86_64-dell_z9864f-r0",
        hwsku="Dell-Z9864f-O64",
        alias="etp{number}",
        first_lanes=_Z9864F,
        speed_gbit_s=800,
        lanes=8,
        groups=(
            ("5m", "18796", "0", "729488"),
            ("40m", "18796", "0", "835406"),
            ("300m", "18796", "0", "1621536"),
        ),
        threshold="0",
        pools=_pools(
            "33374584", ("162539680", "162539680"), ("165867080", "165867080"), ("1778", "0")
        ),
    ),
    "Z9332F": Platform(
        platform="x86_64-dellemc_z9332f_d1508-r0",
        hwsku="DellEMC-Z9332f-O32",
        alias="fourhundredGigE1/{number}",
        first_lanes=_BLOCKS + _BLOCKS_2,
        speed_gbit_s=400,
        lanes=8,
        groups=(
            ("5m", "2540", "2540", "178562"),
            ("40m", "2540", "2540", "201930"),
            ("300m", "2540", "2540", "373888"),
            ("1000m", "2540", "2540", "836676"),
            ("2000m", "2540", "2540", "1498092"),
        ),
        threshold="-2",
        pools=_pools("27200352", ("66394076", "38462204"), ("66394076", "67117468"), ("1778", "1")),
    ),
}


class Stored(stored.Stored):
    """The state that one switch keeps on disk in the lab."""

    running: Db
    saved: Db
    """`/etc/sonic/config_db.json`."""
    files: dict[str, str] = {}
    """Path to the content that a user wrote there, for `config load`."""
    pfc_lists: dict[str, str] = {}
    """Port to the `pfc_enable` that buffermgrd remembers; a deleted list stays there."""
    cables: dict[str, str] = {}
    """Port to the cable length that buffermgrd remembers."""
    watchdogs: dict[str, dict[int, str]] = {}
    """Port with a watchdog to its queues, each with its action in a storm."""
    groups: dict[str, dict[int, str]] = {}
    """Port and priority group to the buffer profile in the chip."""
    bgp_asns: dict[str, str] = {}
    """VRF to the AS number that frrcfgd gave to FRR."""
    lock_owner: str = ""
    """The user who reloads the configuration, and holds the lock (a fault)."""


def platform_of(model: str) -> Platform:
    """The platform data of a model; a UsageError if the lab does not know it with SONiC."""
    if model not in PLATFORMS:
        known = sorted(PLATFORMS)
        raise UsageError(f"the lab has no switch model {model!r} with SONiC; it has {known}")
    return PLATFORMS[model]


Preset = Literal["l1", "t1"]


def factory_stored(hostname: str, model: str, preset: Preset = "l1") -> Stored:
    """The state of a switch after its first boot."""
    db = factory_db(hostname, platform_of(model), preset)
    return Stored(running=db, saved=copy_of(db))


def _t1_rows(ports: Table) -> Db:
    """Rows that `generate_t1_sample_config` adds: an address and a neighbour for each port."""
    rows: Db = {
        "LOOPBACK_INTERFACE": {"Loopback0": {}, "Loopback0|10.1.0.1/32": {}},
        "INTERFACE": {},
        "BGP_NEIGHBOR": {},
    }
    half = len(ports) // 2
    for number, port in enumerate(ports):
        third, fourth = divmod(2 * number, 256)
        own, peer = f"10.0.{third}.{fourth}", f"10.0.{third}.{fourth + 1}"
        kind, asn = ("T2", 65200) if number < half else ("T0", 64001 + number - half)
        rows["INTERFACE"] |= {port: {}, f"{port}|{own}/31": {}}
        rows["BGP_NEIGHBOR"][peer] = {
            "rrclient": "0",
            "name": f"ARISTA{1 + number % half:02d}{kind}",
            "local_addr": own,
            "nhopself": "0",
            "holdtime": "180",
            "asn": str(asn),
            "keepalive": "60",
        }
    return rows


def factory_db(hostname: str, platform: Platform, preset: Preset = "l1") -> Db:
    """`sonic-cfggen -H -k <hwsku> --preset …`."""
    ports: Table = {}
    for number, first in enumerate(platform.first_lanes):
        ports[f"Ethernet{number * platform.lanes}"] = {
            "admin_status": "up",
            "alias": platform.alias.format(number=number + 1),
            "index": str(number + 1),
            "lanes": ",".join(str(first + lane) for lane in range(platform.lanes)),
            "mtu": FACTORY_MTU,
            "speed": str(platform.speed_gbit_s * 1000),
        }
    metadata = {
        "buffer_model": "traditional",
        "default_bgp_status": "up",
        "hostname": hostname,
        "hwsku": platform.hwsku,
        "mac": "50:6b:4b:00:00:01",
        "platform": platform.platform,
        "type": "LeafRouter",
    }
    # init_cfg.json.j2, which the first boot merges.
    counters = {"PFCWD": {"FLEX_COUNTER_STATUS": "enable"}}
    if preset == "t1":
        metadata["bgp_asn"] = "65100"
    return {
        "DEVICE_METADATA": {"localhost": metadata},
        "FLEX_COUNTER_TABLE": counters,
        "PORT": ports,
        **(_t1_rows(ports) if preset == "t1" else {}),
    }


def copy_of(db: Db) -> Db:
    """A copy of a database; `deepcopy` takes ten times as long for it."""
    return {
        table: {key: dict(fields) for key, fields in rows.items()} for table, rows in db.items()
    }


def row(db: Db, table: str, key: str) -> Fields:
    """The fields of a row; empty for a missing row."""
    return db.get(table, {}).get(key, {})


def is_managed(db: Db) -> bool:
    """Whether frrcfgd configures BGP from the rows of CONFIG_DB."""
    return row(db, "DEVICE_METADATA", "localhost").get("frr_mgmt_framework_config") == "true"
