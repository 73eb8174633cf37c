"""What an edit of the version may ask for, and who goes when: tables of literals."""

from __future__ import annotations

import pytest

from components.disruption.disruption_plan import judge_versions


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({}, "v1.37.1+k3s1"),
        ({"cp-0": "v1.36.3+k3s1", "gpu01": "v1.36.3+k3s1"}, "v1.36.3+k3s1"),
        ({"cp-0": "v1.36.3+k3s1", "gpu01": "v1.36.3+k3s1"}, "v1.36.3+k3s2"),
        ({"cp-0": "v1.36.3+k3s1", "gpu01": "v1.36.3+k3s1"}, "v1.37.1+k3s1"),
        # A run that was killed left the server ahead of its agents: to go on is all right.
        ({"cp-0": "v1.37.1+k3s1", "gpu01": "v1.36.3+k3s1"}, "v1.37.1+k3s1"),
        # A node that was never heard of has no release.
        ({"cp-0": "v1.36.3+k3s1", "gpu01": ""}, "v1.37.1+k3s1"),
    ],
)
def test_the_same_release_a_newer_patch_and_the_next_minor_are_taken(
    found: dict[str, str], wanted: str
) -> None:
    assert judge_versions(found, wanted) is None


@pytest.mark.parametrize(
    ("found", "wanted", "what", "fix"),
    [
        (
            {"cp-0": "v1.36.3+k3s1", "gpu01": "v1.36.3+k3s1"},
            "v1.36.2+k3s1",
            (
                "cp-0, gpu01 run K3s v1.36.3+k3s1, and kubernetes.version is v1.36.2+k3s1: neither"
                " K3s nor etcd goes back to an earlier release."
            ),
            (
                "write version: v1.36.3+k3s1; K3s cannot go back to an earlier one"
                " (docs/howto/upgrade-k3s.md)."
            ),
        ),
        (
            {"cp-0": "v1.36.3+k3s2"},
            "v1.36.3+k3s1",
            (
                "cp-0 runs K3s v1.36.3+k3s2, and kubernetes.version is v1.36.3+k3s1: neither"
                " K3s nor etcd goes back to an earlier release."
            ),
            (
                "write version: v1.36.3+k3s2; K3s cannot go back to an earlier one"
                " (docs/howto/upgrade-k3s.md)."
            ),
        ),
        # The edit is taken back in the middle of the upgrade.
        (
            {"cp-0": "v1.37.1+k3s1", "gpu01": "v1.36.3+k3s1"},
            "v1.36.3+k3s1",
            (
                "cp-0 runs K3s v1.37.1+k3s1, and kubernetes.version is v1.36.3+k3s1: neither"
                " K3s nor etcd goes back to an earlier release."
            ),
            (
                "write version: v1.37.1+k3s1; K3s cannot go back to an earlier one"
                " (docs/howto/upgrade-k3s.md)."
            ),
        ),
        (
            {"cp-0": "v1.35.4+k3s1", "gpu01": "v1.36.1+k3s1"},
            "v1.37.1+k3s1",
            (
                "cp-0 runs K3s v1.35.4+k3s1, and kubernetes.version is v1.37.1+k3s1: Kubernetes is"
                " upgraded one minor release at a time."
            ),
            "write a release of 1.36 first and run `pulumi up`; then v1.37.1+k3s1.",
        ),
    ],
)
def test_a_way_back_and_two_minors_at_once_are_refused(
    found: dict[str, str], wanted: str, what: str, fix: str
) -> None:
    problem = judge_versions(found, wanted)
    assert problem is not None
    assert (problem.what, problem.fix) == (what, fix)
