"""The owner of a cluster that exists already: a host of the lab, and not of the site."""

from __future__ import annotations

import pytest

from components.core.errors import UsageError
from components.model.cluster import ClusterSpec
from lab.cluster.artefact import checksums
from lab.existing import OWNER, image_steps, with_owner
from lab.site import k3s_source, lab_file, load_document, overlay
from tests.golden.site import EXAMPLES
from tests.lab.test_site import PLACES

SOURCE = k3s_source({"k3s": "0" * 64, "install.sh": "1" * 64})
STACK = "shared-rdma"


def relocated(file: str) -> ClusterSpec:
    document = load_document(EXAMPLES / STACK / file)
    return ClusterSpec.model_validate(overlay(document, STACK, checksums()))


def test_a_site_with_its_own_cluster_has_no_other_owner() -> None:
    assert with_owner(relocated("site.yaml"), STACK, SOURCE) is None


def test_another_cluster_than_k3s_is_refused_by_its_version() -> None:
    with pytest.raises(UsageError, match=r"installs K3s.*v1\.36\.3\."):
        with_owner(relocated("theirs.yaml"), STACK, SOURCE)


def test_the_owner_logs_in_where_railyard_does_not() -> None:
    spec = relocated("without-ssh.yaml")
    assert [host.ssh for host in spec.hosts] == [None, None]
    found = with_owner(spec, STACK, SOURCE)
    assert found is not None
    lab = lab_file(found[0], STACK, PLACES)
    assert [host.name for host in lab.hosts] == [OWNER, "node03", "node04"]
    assert len({host.address for host in lab.hosts}) == 3
    image = image_steps(spec, found[0], STACK)
    assert [step.name for step in image] == ["node03-host", "node04-host"]
    assert all("nic.0000:58:00.0.mtu_bytes=9000\n" in step.desired for step in image)
    reached = relocated("existing.yaml")
    assert image_steps(reached, reached, STACK) == ()


def test_the_owner_installs_on_the_workers_of_the_site() -> None:
    spec = relocated("existing.yaml")
    found = with_owner(spec, STACK, SOURCE)
    assert found is not None
    owned, plan = found
    assert [step.endpoint.device for step in (*plan.servers, *plan.agents)] == [
        OWNER,
        *(host.name for host in spec.workers),
    ]
    assert spec.kubernetes is not None
    assert plan.version == spec.kubernetes.version
    lab = lab_file(owned, STACK, PLACES)
    assert [host.name for host in lab.hosts] == [OWNER, *(host.name for host in spec.hosts)]
    assert len({host.address for host in lab.hosts}) == len(lab.hosts)
