"""Fetching from a real server with TLS: what is refused, and what is gone on with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.artefacts.web import (
    Access,
    FetchError,
    Login,
    WrongContentError,
    download,
    fetch,
    length_of,
    measure,
)
from tests.artefacts.certificates import Authority
from tests.artefacts.web_server import Site, proxy, serve

BODY = bytes(range(256)) * 4096
DIGEST = hashlib.sha256(BODY).hexdigest()
OURS, OTHERS = Authority("ours"), Authority("others")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[Site]:
    with serve(tmp_path / "tls", OURS) as found:
        found.files["/k3s"] = BODY
        yield found


def test_a_file_is_measured_and_kept(site: Site, tmp_path: Path) -> None:
    access = Access(OURS.pem)
    assert measure(f"{site.address}/k3s", access) == (DIGEST, len(BODY))
    assert length_of(f"{site.address}/k3s", access) == len(BODY)
    target = tmp_path / "files" / "k3s"
    download(f"{site.address}/k3s", access, target, DIGEST)
    assert target.read_bytes() == BODY


def test_a_file_that_is_gone(site: Site) -> None:
    with pytest.raises(FetchError, match="answered 404 Not Found") as refused:
        fetch(f"{site.address}/k3s-arm64", Access(OURS.pem))
    assert (refused.value.status, refused.value.exit_code) == (404, 4)
    assert "correct the address or version" in str(refused.value)


def test_another_checksum_leaves_nothing_behind(site: Site, tmp_path: Path) -> None:
    with pytest.raises(WrongContentError, match=f"its checksum is {DIGEST}, want {'0' * 64}"):
        download(f"{site.address}/k3s", Access(OURS.pem), tmp_path / "k3s", "0" * 64)
    assert [each.name for each in tmp_path.iterdir()] == ["tls"]


@pytest.mark.parametrize("login", [None, Login("ada", "wrong")])
def test_a_login_is_wanted(site: Site, login: Login | None) -> None:
    site.login = "ada:right"
    with pytest.raises(FetchError, match="answered 401 Unauthorized") as refused:
        fetch(f"{site.address}/k3s", Access(OURS.pem, login))
    assert "give a login" in str(refused.value)
    assert "wrong" not in str(refused.value)


def test_a_login_is_given(site: Site) -> None:
    site.login = "ada:right"
    assert fetch(f"{site.address}/k3s", Access(OURS.pem, Login("ada", "right"))) == BODY


@pytest.mark.parametrize("ca", [None, OTHERS.pem])
def test_a_server_that_another_authority_signed(site: Site, ca: str | None) -> None:
    with pytest.raises(FetchError, match="its certificate is not trusted") as refused:
        fetch(f"{site.address}/k3s", Access(ca))
    assert "`ca` of the source" in str(refused.value)
    assert site.asked == []


def test_a_redirect_is_followed_without_the_login(site: Site, tmp_path: Path) -> None:
    with serve(tmp_path / "far", OURS) as far:
        far.files["/blob"] = BODY
        site.login = "ada:right"
        site.redirects["/moved"] = f"{far.address}/blob"
        assert fetch(f"{site.address}/moved", Access(OURS.pem, Login("ada", "right"))) == BODY
        assert far.asked == [("/blob", "")]


def test_a_redirect_on_the_same_server_keeps_the_login(site: Site) -> None:
    site.login = "ada:right"
    site.redirects["/moved"] = "/k3s"
    assert fetch(f"{site.address}/moved", Access(OURS.pem, Login("ada", "right"))) == BODY


def test_a_redirect_to_plain_http_is_refused(site: Site, tmp_path: Path) -> None:
    with serve(tmp_path, None) as plain:
        plain.files["/k3s"] = BODY
        site.redirects["/moved"] = f"{plain.address}/k3s"
        with pytest.raises(FetchError, match="which is not https"):
            fetch(f"{site.address}/moved", Access(OURS.pem))
        assert plain.asked == []


def test_plain_http_is_refused(tmp_path: Path) -> None:
    with serve(tmp_path, None) as plain:
        with pytest.raises(FetchError, match="it is not https"):
            fetch(f"{plain.address}/k3s", Access())
        assert plain.asked == []


def test_a_download_that_was_cut_goes_on_where_it_ended(site: Site, tmp_path: Path) -> None:
    site.cut["/k3s"] = 100_000
    target = tmp_path / "k3s"
    with pytest.raises(FetchError, match=f"ended after 100000 of {len(BODY)} bytes"):
        download(f"{site.address}/k3s", Access(OURS.pem), target, DIGEST)
    assert not target.exists()
    download(f"{site.address}/k3s", Access(OURS.pem), target, DIGEST)
    assert target.read_bytes() == BODY


def test_a_measured_file_that_was_cut_has_no_checksum(site: Site) -> None:
    site.cut["/k3s"] = 7
    with pytest.raises(FetchError, match="ended after 7 of"):
        measure(f"{site.address}/k3s", Access(OURS.pem))


def test_a_proxy_in_between_is_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy() as (address, asked):
        monkeypatch.setenv("HTTPS_PROXY", address)
        assert fetch(f"{site.address}/k3s", Access(OURS.pem)) == BODY
    assert asked == [site.address.removeprefix("https://")]


def test_a_proxy_that_refuses_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(refuses=True) as (address, _):
        monkeypatch.setenv("HTTPS_PROXY", address)
        with pytest.raises(FetchError, match="the proxy refuses it: 403") as refused:
            fetch(f"{site.address}/k3s", Access(OURS.pem))
    assert "NO_PROXY" in str(refused.value)
    assert site.asked == []


def test_a_server_that_is_not_there(site: Site) -> None:
    with pytest.raises(FetchError, match=r"cannot be reached: .*refused") as refused:
        fetch("https://127.0.0.1:1/k3s", Access(OURS.pem))
    assert refused.value.exit_code == 4
    assert site.asked == []
