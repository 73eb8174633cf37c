"""The shipped script with the real curl: artefacts, registries and proxies as a host meets them."""

from __future__ import annotations

import base64
import hashlib
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from components.core.problem import Finding
from components.model.sources import Registry
from components.preflight.artefacts import Artefact
from components.preflight.wants import HostWants
from tests.artefacts.certificates import Authority
from tests.artefacts.registry_server import PASSWORD, USER, registry
from tests.preflight.asking import ask
from tests.preflight.played import PLAYED
from tests.preflight.served import Answer, serve

K3S = b"the program\n"
DIGEST = hashlib.sha256(K3S).hexdigest()
IMAGE = "/v2/team/nccl/manifests/1.2"


def file_wants(address: str, digest: str = DIGEST) -> HostWants:
    return HostWants("gpu01", artefacts=(Artefact("k3s", "file", address, digest, ("gpu01",)),))


def image_wants(address: str, *, plain_http: bool = False) -> HostWants:
    image = Artefact("image-jobs", "image", address, plain_http=plain_http)
    return HostWants("gpu01", artefacts=(image,))


def causes(found: tuple[Finding, ...]) -> dict[str, Finding]:
    return {each.rule: each for each in found if each.rule.startswith(("artefact", "image"))}


def test_an_artefact_with_its_checksum_is_good(tmp_path: Path) -> None:
    with serve({"/k3s": Answer(body=K3S)}, tmp_path) as served:
        found = ask(file_wants(f"{served.address}/k3s"), {"CURL_CA_BUNDLE": str(served.authority)})
    assert causes(found) == {}


@pytest.mark.parametrize(
    ("path", "digest", "actual", "fix"),
    [
        ("gone", DIGEST, "404", "correct the address"),
        ("k3s", "0" * 64, DIGEST, "write the checksum of this one"),
    ],
)
def test_an_artefact_that_is_gone_or_another_is_named(
    tmp_path: Path, path: str, digest: str, actual: str, fix: str
) -> None:
    with serve({"/k3s": Answer(body=K3S)}, tmp_path) as served:
        wants = file_wants(f"{served.address}/{path}", digest)
        found = causes(ask(wants, {"CURL_CA_BUNDLE": str(served.authority)}))
    assert actual in found["artefact-k3s"].actual
    assert fix in found["artefact-k3s"].fix


@pytest.mark.parametrize(
    ("status", "actual"),
    [(200, ""), (404, "the server answers 404"), (503, "the server answers 503")],
)
def test_a_file_without_a_checksum_must_be_served(tmp_path: Path, status: int, actual: str) -> None:
    with serve({"/k3s": Answer(status)}, tmp_path) as served:
        address = f"{served.address}/k3s"
        found = causes(ask(file_wants(address, ""), {"CURL_CA_BUNDLE": str(served.authority)}))
    assert {each.actual for each in found.values()} == ({actual} if actual else set())
    for each in found.values():
        assert (each.rule, each.what.split()[0]) == ("artefact-k3s", address)
        assert each.fix.startswith("correct the address")


@pytest.mark.parametrize("status", [403, 405, 501])
def test_a_server_that_answers_no_head_proves_nothing(tmp_path: Path, status: int) -> None:
    with serve({"/k3s": Answer(status)}, tmp_path) as served:
        wants = file_wants(f"{served.address}/k3s", "")
        assert causes(ask(wants, {"CURL_CA_BUNDLE": str(served.authority)})) == {}


def test_a_file_on_the_host_is_compared_too(tmp_path: Path) -> None:
    file = tmp_path / "k3s"
    assert causes(ask(file_wants(str(file))))["artefact-k3s"].actual == "absent"
    file.write_bytes(K3S + b"more")
    assert causes(ask(file_wants(str(file))))["artefact-k3s"].wanted == DIGEST
    file.write_bytes(K3S)
    assert causes(ask(file_wants(str(file)))) == {}


def test_another_authority_is_told_as_one(tmp_path: Path) -> None:
    with serve({"/k3s": Answer(body=K3S)}, tmp_path) as served:
        found = causes(ask(file_wants(f"{served.address}/k3s")))
    assert "trust the CA" in found["artefact-k3s"].fix


def test_a_proxy_that_refuses_is_told_as_one(tmp_path: Path) -> None:
    with serve({}, tmp_path, tls=False) as proxy:
        wants = file_wants("https://192.0.2.1/k3s")
        found = causes(ask(wants, {"https_proxy": proxy.address}))
    assert "403" in found["artefact-k3s"].actual
    assert "a proxy in between refuses it" in found["artefact-k3s"].fix


def test_nothing_that_listens_is_told_with_curls_words(tmp_path: Path) -> None:
    del tmp_path
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = causes(ask(file_wants(f"https://127.0.0.1:{port}/k3s")))
    assert "open the way to it" in found["artefact-k3s"].fix
    assert f"port {port}" in found["artefact-k3s"].actual


def test_an_image_is_found_with_a_token_that_everybody_gets(tmp_path: Path) -> None:
    token = b'{"token": "abc.def"}'
    answers = {IMAGE: Answer(), "/token": Answer(body=token)}
    with serve(answers, tmp_path, token="abc.def") as served:
        registry = served.address.removeprefix("https://")
        wants = image_wants(f"{registry}/team/nccl:1.2")
        found = causes(ask(wants, {"CURL_CA_BUNDLE": str(served.authority)}))
    assert found == {}


def test_a_registry_that_wants_a_login_is_named(tmp_path: Path) -> None:
    with serve({IMAGE: Answer()}, tmp_path, token="for members only") as served:
        registry = served.address.removeprefix("https://")
        wants = image_wants(f"{registry}/team/nccl:1.2")
        found = causes(ask(wants, {"CURL_CA_BUNDLE": str(served.authority)}))
    assert found["image-jobs"].actual == "401"
    assert "wants a login" in found["image-jobs"].what


def test_the_sites_own_registry_is_asked_with_its_ca_and_its_login(tmp_path: Path) -> None:
    basic = base64.b64encode(b'puller:pa"ss').decode()
    with serve({IMAGE: Answer()}, tmp_path, token="", basic=basic) as served:
        host = served.address.removeprefix("https://")
        login = {"user": "puller", "password": {"secret": "registry_password"}}
        read = {"address": host, "ca": served.authority.read_text(), "login": login}
        registry = Registry.model_validate(read)
        image = Artefact("image-jobs", "image", f"{host}/team/nccl:1.2", own=True)
        wants = HostWants("gpu01", artefacts=(image,), registry=registry)
        assert causes(ask(wants)) == {}
        stranger = replace(wants, registry=registry.model_copy(update={"login": None}))
        assert causes(ask(stranger))["image-jobs"].actual == "401"
        no_ca = replace(wants, registry=registry.model_copy(update={"ca": None}))
        assert "trust the CA" in causes(ask(no_ca))["image-jobs"].fix


def test_a_real_registry_with_a_login_is_asked_as_a_host_asks_it(tmp_path: Path) -> None:
    with registry(tmp_path / "registry", Authority("site")) as served:
        served.put_image("team/nccl:1.2")
        login = {"user": USER, "password": {"secret": "right"}}
        read = {"address": served.host, "ca": served.authority, "login": login}
        ours = Registry.model_validate(read)

        def pull(tag: str, registry: Registry, password: str = PASSWORD) -> dict[str, Finding]:
            image = Artefact("image-jobs", "image", f"{served.host}/team/nccl:{tag}", own=True)
            wants = HostWants("gpu01", artefacts=(image,), registry=registry)
            return causes(ask(wants, right=password))

        assert pull("1.2", ours) == {}
        assert pull("1.3", ours)["image-jobs"].actual == "404"
        assert pull("1.2", ours, "wrong")["image-jobs"].actual == "401"
        stranger = pull("1.2", ours.model_copy(update={"login": None}))["image-jobs"]
        assert "wants a login" in stranger.what


def test_an_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    with serve({}, tmp_path, tls=False) as served:
        registry = served.address.removeprefix("http://")
        wants = image_wants(f"{registry}/team/nccl:1.3", plain_http=True)
        found = causes(ask(wants))
    assert (found["image-jobs"].actual, found["image-jobs"].severity) == ("404", "error")


def test_a_port_that_is_taken_and_one_that_is_free(tmp_path: Path) -> None:
    del tmp_path
    with socket.create_server(("127.0.0.1", 0)) as listening:
        used = listening.getsockname()[1]
        wants = HostWants("gpu01", own_addresses=("127.0.0.1",), ports=(used,))
        assert f"port-{used}" in {each.rule for each in ask(wants)}
        elsewhere = HostWants("gpu01", own_addresses=("127.0.0.9",), ports=(used,))
        assert f"port-{used}" not in {each.rule for each in ask(elsewhere)}
        asks = HostWants("gpu01", peers=(("127.0.0.1", used),))
        assert not [each for each in ask(asks) if each.rule.startswith("peer-")]
    asks = HostWants("gpu01", peers=(("127.0.0.1", used),))  # refused: the machine answers
    assert not [each for each in ask(asks) if each.rule.startswith("peer-")]


@pytest.mark.parametrize(
    ("image", "manifest"),
    [
        ("nginx", "https://registry-1.docker.io/v2/library/nginx/manifests/latest"),
        ("crusoe/nccl:12", "https://registry-1.docker.io/v2/crusoe/nccl/manifests/12"),
        ("ghcr.io/a/b/c:v1", "https://ghcr.io/v2/a/b/c/manifests/v1"),
        ("10.0.0.1:5000/x", "https://10.0.0.1:5000/v2/x/manifests/latest"),
        ("nvcr.io/n/cuda@sha256:00", "https://nvcr.io/v2/n/cuda/manifests/sha256:00"),
    ],
)
def test_a_name_leads_to_its_manifest(image: str, manifest: str) -> None:
    assert Artefact("x", "image", image).manifest == manifest


def test_this_is_the_cause_that_is_played_here(tmp_path: Path) -> None:
    with serve({}, tmp_path, tls=False) as served:
        registry = served.address.removeprefix("http://")
        found = causes(ask(image_wants(f"{registry}/team/nccl:1.3", plain_http=True)))
    assert found.keys() == PLAYED["tests/preflight/test_sources.py"]
