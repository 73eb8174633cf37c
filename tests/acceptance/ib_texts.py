"""What a healthy host of `examples/quantum-ib` prints, and the same with one change.

The forms are those of lab/sources.md#infiniband-diagnostics.
"""

from __future__ import annotations

from components.acceptance.probes.ib_look import IbFacts, parse_ib_look, plan_ib_limits
from tests.fabric.ib_lab import load_spec

SPEC = load_spec()
LIMITS = plan_ib_limits(SPEC)
assert LIMITS is not None
HOSTS = ("gpu01", "gpu02")
MASTER_GUID = "b8599f0300aaaaaa"
SMINFO = (
    f"sminfo: sm lid 1 sm guid 0x{MASTER_GUID}, activity count 4484381 priority 14"
    " state 3 SMINFO_MASTER\nstatus: 0\n"
)
"""A public transcript's line with another GUID."""
IBDIAGNET = """---------------------------------------------
Speed / Width checks
-I- Link Width Check (Compare to supported link width)
-E- Links Width Check finished with errors
-E- Link: leaf/U1/P24<-->S900a840300308e40/N900a840300308e40/P49 - Unexpected width, actual \
link width is 2x
---------------------------------------------
Fabric Summary

Total Nodes             : 42
IB Switches             : 6
IB Channel Adapters     : 31

Adaptive Routing is enabled on 3 switches

Total number of links   : 58
Links at 4x2.5          : 4
Links at 4x100          : 6

Master SM: Port=1 LID=10 GUID=0x98039b0300952b30 devid=4123 Priority:15 Node_Type=CA \
Node_Description=smg-ib-svr43 mlx5_0
Standby SM : No Standby SM

---------------------------------------------
Summary
-I- Stage                               Warnings   Errors     Comment
-I- Discovery                           3          0
-I- Subnet Manager                      0          0
-I- Port Counters                       0          2
-I- Speed / Width checks                0          15
-I- Partition Keys                      0          0          checked

-I- You can find detailed errors/warnings in: /var/tmp/ibdiagnet2/ibdiagnet2.log
-I- Database                            : /var/tmp/ibdiagnet2/ibdiagnet2.db_csv
"""
"""The parts that are read, in the layout of a capture of 2.7.0 and of public guides (AR line)."""


def record(number: int, priority: int, state: int) -> str:
    """As saquery.c prints it."""
    return (
        f"SMInfoRecord dump:\n\t\tRID\n\t\tLID...................{number}\n\t\tSMInfo dump:\n"
        f"\t\tGUID..................0x{int(MASTER_GUID, 16) + number - 1:016x}\n"
        f"\t\tSM_Key................0x0000000000000000\n\t\tActCount..............4711\n"
        f"\t\tPriority..............{priority}\n\t\tSMState...............{state}\n"
    )


SAQUERY = record(1, 14, 3) + record(2, 13, 2) + "status: 0\n"


PATH = "PathRecord dump:\n\t\tpkey....................0x8101\nstatus: 0\n"
"""As saquery.c prints it, shortened; without a record it prints nothing."""


def answers(training: str = PATH, storage: str = PATH) -> str:
    """What either host of the example is answered: the other one is a member of both."""
    return f"=== path training.1\n{training}=== path storage.1\n{storage}"


PATHS = answers()


def port(host: str, number: int, **changes: str) -> str:
    guid = SPEC.host(host).hca_guids[number]  # pyright: ignore[reportOptionalMemberAccess] - both are in the file
    groups = ":".join(guid[i : i + 4] for i in range(0, 16, 4))
    storage = "0x8201" if host == "gpu01" else "0x0201"
    values = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "lid": "0x10",
        "sm_lid": "0x1",
        "gid": f"fe80:0000:0000:0000:{groups}",
        "pkeys": f"0xffff 0x8101 {storage}",
        "active_mtu": "4096 (5)",
    } | changes
    lines = [
        f"{key}: {value}" for key, value in values.items() if key not in {"pkeys", "active_mtu"}
    ]
    lines += [f"pkey: {key}" for key in values["pkeys"].split()]
    lines += [f"\t\t\tactive_mtu:\t\t{values['active_mtu']}"] if values["active_mtu"] else []
    return f"=== port mlx5_{number}\n" + "\n".join(lines) + "\n"


def look(
    host: str = "gpu01",
    *,
    sminfo: str = SMINFO,
    saquery: str = SAQUERY,
    ibdiagnet: str = "",
    paths: str = PATHS,
    **changes: str,
) -> IbFacts:
    """A host whose first port is changed."""
    ports = port(host, 0, **changes) + "".join(port(host, number) for number in range(1, 8))
    tail = f"=== ibdiagnet\n{ibdiagnet}" if ibdiagnet else ""
    return parse_ib_look(f"{ports}=== sminfo\n{sminfo}=== saquery\n{saquery}{paths}{tail}")
