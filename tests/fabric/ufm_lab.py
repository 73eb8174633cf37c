"""An emulated UFM over real HTTPS, and the example site with it as its subnet manager."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from ssl import PEM_cert_to_DER_cert
from typing import Any

import yaml

from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.model.cluster import ClusterSpec
from lab.infiniband.ufm import Ufm, UfmServer
from tests.artefacts.certificates import ADDRESS, Authority
from tests.fabric.ib_lab import SITE

PASSWORD = "ufm-lab"
AUTHORITY = Authority("ufm")


@contextmanager
def serve(folder: Path) -> Generator[tuple[UfmServer, str]]:
    """A server, and the SHA-256 of its certificate."""
    certificate, key = AUTHORITY.write(folder)
    der = PEM_cert_to_DER_cert(certificate.read_text())
    users = {"admin": (PASSWORD, "System_Admin"), "looker": ("look", "Monitoring_Only")}
    with UfmServer(Ufm(users), certificate, key, ADDRESS) as server:
        yield server, hashlib.sha256(der).hexdigest()


def site(ufm: dict[str, object] | None = None, **partition: object) -> dict[str, Any]:
    """The example without switches that run a manager; the rest changes its last partition."""
    data: dict[str, Any] = yaml.load(SITE.read_text(), Loader=yaml.CSafeLoader)
    for switch in data["switches"]:
        del switch["sm_priority"]
    del data["infiniband"]["routing_engine"]
    data["infiniband"]["subnet_manager"] = "external"
    data["infiniband"]["ufm"] = {
        "address": "192.168.1.30",
        "password": {"secret": "ufm_password"},
        "certificate_sha256": "0" * 64,
        **(ufm or {}),
    }
    data["infiniband"]["partitions"][-1].update(partition)
    return data


def spec_at(server: UfmServer, digest: str, **partition: object) -> ClusterSpec:
    reached: dict[str, object] = {
        "address": ADDRESS,
        "port": server.port,
        "certificate_sha256": digest,
    }
    return ClusterSpec.model_validate(site(reached, **partition))


def plan_at(server: UfmServer, digest: str, **partition: object) -> SwitchPlan:
    return plan_fabric(spec_at(server, digest, **partition))[-1]
