"""The matrix of atsSupport, release by release."""

from __future__ import annotations

import pytest

from components.catalogue.environments import AtsSupport, parse_release


@pytest.mark.parametrize(
    ("text", "ats"),
    [
        ("6.0U3", "absent"),
        ("6.7U3", "absent"),
        ("7.0", "other_option"),
        ("7.0U1", "other_option"),
        ("7.0U2", "off_by_default"),
        ("7.0.2", "off_by_default"),
        ("7.0U3d", "on_by_default"),
        ("7.0U3r", "on_by_default"),
        ("8.0", "on_by_default"),
        ("8.0U3g", "on_by_default"),
        ("9.0.0", "on_by_default"),
        ("9.0.1", "on_by_default"),
    ],
)
def test_every_release_of_the_exports(text: str, ats: AtsSupport) -> None:
    release = parse_release(text)
    assert release is not None
    assert release.ats == ats


@pytest.mark.parametrize(
    ("text", "shown"), [("7.0U3d", "7.0U3"), ("7.0.2", "7.0U2"), ("8.0", "8.0"), ("8.0.0", "8.0")]
)
def test_a_release_reads_as_the_host_says_it(text: str, shown: str) -> None:
    release = parse_release(text)
    assert release is not None
    assert release.text == shown


@pytest.mark.parametrize("text", ["", "seven", "7", "7.0U", "7.0.2U2", "ESXi7.0", "7.0U22"])
def test_what_is_no_release_is_none(text: str) -> None:
    assert parse_release(text) is None
