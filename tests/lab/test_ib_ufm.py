"""The lab's UFM: what its API is given is what the real opensm sets on the ports."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from components.core.errors import UsageError
from components.fabric.parts import show_pkey
from components.model.cluster import ClusterSpec
from lab.hosts.lab_file import LabFile
from lab.infiniband.manager import POLLING_MS, render_options
from lab.infiniband.room import IbRoom
from lab.keys import certificate
from lab.site import UFM_PASSWORD, lab_file, load_document, overlay
from lab.views import HcaPort
from tests.lab.test_ib_managers import until
from tests.over_ssh.ib_fabric_lab import FAKE_ARTEFACT

STACK = "ib-ufm"
FIRST, OTHER = "a088c20300031000", "a088c20300041010"
LOGIN = f"Basic {b64encode(f'railyard:{UFM_PASSWORD}'.encode()).decode()}"
SITE = Path(__file__).parents[2] / "examples/quantum-ufm/site.yaml"


@pytest.fixture
def played(tmp_path: Path) -> LabFile:
    spec = ClusterSpec.model_validate(overlay(load_document(SITE), STACK, FAKE_ARTEFACT))
    return replace(lab_file(spec, STACK, (tmp_path, tmp_path, tmp_path)), root=tmp_path)


def make_room(played: LabFile) -> IbRoom:
    return IbRoom(played.root, played.plain_switches, played.ufm)


def send(room: IbRoom, method: str, path: str, **body: object) -> None:
    assert room.ufm is not None
    status, said = room.ufm.ufm.answer(method, f"/ufmRest{path}", LOGIN, json.dumps(body))
    assert status == 200, said


def test_the_site_of_the_lab_has_ufm_and_switches_without_a_login(played: LabFile) -> None:
    assert (played.switches, played.ufm is not None) == ((), True)
    first, second = played.plain_switches
    assert (first.name, first.rate_gbit_s, len(first.ports)) == ("ib-leaf-01", 800, 144)
    assert first.cables["sw1p1"] == ("gpu01", "0000:18:00.0")
    assert first.cables["sw5p1"] == ("ufm", "0000:01:00.0")
    assert "sw5p1" not in second.cables
    assert second.links["sw71p1"] == ("ib-leaf-01", "sw71p1")


def test_a_certificate_is_the_same_each_time() -> None:
    one, same = certificate("a/ufm", "127.1.2.2"), certificate("a/ufm", "127.1.2.2")
    assert one == same
    assert one.sha256 != certificate("b/ufm", "127.1.2.2").sha256
    assert one.certificate_pem.startswith("-----BEGIN CERTIFICATE-----")


def test_what_it_was_given_outlives_the_lab(played: LabFile) -> None:
    room = make_room(played)
    send(room, "POST", "/resources/pkeys/add", pkey="0x101", ip_over_ib=False)
    send(room, "POST", "/resources/pkeys/", pkey="0x101", guids=[FIRST], membership="limited")
    assert make_room(played).snapshot() == room.snapshot()
    assert room.fault(["put", "0x101", OTHER, "full"]) == f"{OTHER} is a full member of 0x101"
    assert room.fault(["drop", "0x101", FIRST]) == f"{FIRST} is out of 0x101"
    assert room.fault(["routing", "minhop"]) == "the routing engine is minhop"
    assert make_room(played).snapshot() == {
        "ufm": {
            "routing_engine": "minhop",
            "partitions": {"0x101": {"ip_over_ib": False, "guids": {OTHER: ("full", False)}}},
        }
    }
    for wrong in (["drop", "0x101", FIRST], ["drop", "0x999", OTHER], ["burn"]):
        with pytest.raises(UsageError):
            room.fault(wrong)


def test_debians_opensm_has_no_engine_with_adaptive_routing() -> None:
    assert "routing_engine updn\n" in render_options(POLLING_MS, "ar_updn", 15)
    assert "routing_engine minhop\n" in render_options(POLLING_MS, "minhop", 15)


@pytest.mark.lab
def test_a_key_that_the_api_gives_is_on_the_port(played: LabFile) -> None:
    hcas = [
        HcaPort(host.name, hca.name, hca.pci, hca.guid, hca.rate_gbit_s, link_up=True)
        for host in played.hosts
        for hca in host.hcas
    ]
    room = make_room(played)
    fabric = room.make_fabric((), lambda: hcas, POLLING_MS)
    assert fabric is not None

    def keys() -> list[str]:
        return [show_pkey(key) for guid in (FIRST, OTHER) for key in fabric.keys(guid) if key]

    async def play() -> None:
        try:
            await fabric.start()
            assert {*fabric.pids} == {"ibsim", "ufm"}
            await until(lambda: keys() == ["0xffff", "0xffff"], keys)
            send(room, "POST", "/resources/pkeys/add", pkey="0x101", ip_over_ib=False)
            send(room, "POST", "/resources/pkeys/", pkey="0x101", guids=[FIRST])
            fabric.sync()
            await until(lambda: keys() == ["0xffff", "0x8101", "0xffff"], keys)
            assert fabric.is_adaptive
        finally:
            fabric.stop()

    asyncio.run(play())
