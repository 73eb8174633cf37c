"""What perftest prints when a test fails, with the first release that prints it.

Read in the sources of linux-rdma/perftest at its tags v4.5-0.2 to 26.04.17 (20 tags): none of
them has gone since it came. tests/acceptance/recorded/perftest_words.tsv has the texts with their
first and last tag, and a test compares both.
"""

from __future__ import annotations

import re
from typing import Final

from components.acceptance.logs.causes import Cause, FailureFinder
from components.acceptance.logs.launchers import LAUNCHERS

_EARLIER: Final = "an earlier line says why"


def _word(pattern: str, kind: str, meaning: str, since: str = "4.5") -> Cause:
    """A row with the first release that prints it; `4.5` also means older ones.

    One that points to an earlier line is a consequence.
    """
    return Cause(re.compile(pattern), kind, meaning, meaning.endswith(_EARLIER), since)


WORDS: Final = (
    _word(r"VALIDATION: FAILED", "corrupt_data",
          "perftest compared the data, and they arrived wrong: card, PCIe or memory of that host",
          "26.04"),
    _word(r"VALIDATION: (?:WARNING|ERROR)|Data validation requested but no memory"
          r"|Data validation requested but memory type does not|Data validation: cannot start",
          "not_validated",
          "--data_validation was asked for, and perftest compared nothing", "26.04"),
    _word(r"IB device \S+ not found|Unable to find the Infiniband/RoCE device"
          r"|Did not detect devices", "no_device",
          "the RDMA device is not in the pod: no VF, or no SR-IOV resource"),
    _word(r"Port number \d+ state is Down", "link_down", "the link of the device is down"),
    _word(r"Couldn't set the link layer|Couldn't get context for the device", "link_down",
          _EARLIER),
    _word(r"ADDR_ERROR|unexpected CM event", "no_route",
          "no neighbour answers on that rail: VLAN, address or cabling"),
    _word(r"Unable to perform rdma_client function|Unable to init the socket connection"
          r"|Unable to open file descriptor", "not_connected", _EARLIER),
    _word(r"Couldn't connect to \S+", "control_connection",
          "the server does not listen there, or no route leads to it"),
    _word(r"Failed status[ -](?:12\b|transport retry)|Failed status.*\(12\)", "retry_exceeded",
          "packets do not arrive: MTU of a switch port, VLAN, GID, or loss; never retry this"),
    _word(r"Failed status[ -]4\b|Failed status.*\(4\)", "local_protection",
          "the NIC may not reach that memory: nvidia_peermem, ACS or IOMMU"),
    _word(r"Failed status", "completion_error", "an RDMA error"),
    _word(r"Completion with error at", "completion_error", _EARLIER),
    _word(r"(?i:poll (?:on )?(?:send |receive |recv )?CQ failed)", "completion_error",
          "the device stopped to report what it sent: look at the kernel's log of that host"),
    _word(r"Couldn't post (?:send|recv)", "post",
          "the device takes no more work: look at the kernel's log of that host"),
    _word(r"Couldn't create (?:a receiver )?CQ|Failed to create (?:CQs|QP|MR)|Unable to create QP"
          r"|Couldn't allocate MR|failed to create mr|Couldn't create IB resources", "memory",
          "memory cannot be pinned: memlock limit, missing IPC_LOCK, or nvidia_peermem"),
    _word(r"Failed to modify QP", "modify_qp", "no usable GID on the device"),
    _word(r"Couldn't read remote address|Failed to exchange data between server and clients",
          "peer_lost", f"the other end died: read its log; {_EARLIER}"),
    _word(r"Failed to complete run_iter_", "run_iter", _EARLIER),
    _word(r"below (?:bw|msg_rate) limit", "below_limit", "the tool's own limit was missed"),
    _word(r"invalid option|Invalid Command", "usage", "an option that this build lacks"),
)  # fmt: skip
"""The first row that fits a line names it."""


def perftest_finder() -> FailureFinder:
    """Looks for what perftest, its launchers and its hosts say of failures."""
    return FailureFinder(WORDS + LAUNCHERS)
