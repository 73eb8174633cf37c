"""Rules on containers, in cases that one file a rule does not show."""

from __future__ import annotations

import pytest

from components.checks.registry import RULES
from components.model.jobs import ImageBuild
from components.model.places import list_secrets
from tests.containers.site import load_spec

NAMES = {
    "payload-choice",
    "container-hosts",
    "container-image",
    "image-download",
    "registry-login",
    "payload-benchmark",
}
BUILD = ImageBuild(base="nvcr.io/nvaie/tensorflow:21.07-tf1-py3")
SHA256 = "0123456789abcdef" * 4


def broken(**changes: object) -> set[str]:
    spec = load_spec(**({"build": BUILD} | changes))
    return {rule.name for rule in RULES if rule.name in NAMES and list(rule.problems(spec))}


def test_the_guides_site_is_clean() -> None:
    assert broken() == set()


def test_a_download_has_version_and_checksum_or_neither() -> None:
    both = {"mofed_version": "5.8-1.1.2.1", "mofed_sha256": SHA256}
    assert broken(build=BUILD.model_copy(update=both)) == set()
    for key, value in both.items():
        assert broken(build=BUILD.model_copy(update={key: value})) == {"image-download"}


@pytest.mark.parametrize(
    ("image", "good"),
    [
        ("registry.example.com/a:1", True),
        ("192.168.100.10:5000/a:1", True),
        ("team/a:1", False),
        ("quay.io/team/a:1", False),
    ],
)
def test_a_public_registry_takes_a_push_only_after_login(image: str, good: bool) -> None:  # noqa: FBT001 - a table of cases
    assert broken(image=image, login=None) == (set() if good else {"registry-login"})


def test_the_registry_password_is_one_of_the_sites_secrets() -> None:
    found = {ref.secret: path for ref, path in list_secrets(load_spec())}
    assert found["registry_password"] == ("containers", "login", "password", "secret")
