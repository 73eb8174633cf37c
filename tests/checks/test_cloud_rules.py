"""The rules on clouds in cases that one file a rule does not show."""

from __future__ import annotations

import pytest

from components.checks.site import CheckedSite, check_loaded
from components.model.places import list_secrets
from components.reading.load import parse_site
from tests.checks.cases import ROOT


def _check(*edits: tuple[str, str]) -> CheckedSite:
    text = (ROOT / "examples" / "crusoe-k3s" / "site.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return check_loaded(parse_site(text, "site.yaml"), "site.yaml")


def _errors(*edits: tuple[str, str]) -> set[str]:
    return {each.rule for each in _check(*edits).problems if each.severity == "error"}


@pytest.mark.parametrize(
    ("edits", "broken"),
    [
        ((), set[str]()),
        ((("project:", "endpoint: http://127.42.0.3:8080/v1\n    project:"),), set[str]()),
        ((("project:", "endpoint: http://10.0.0.1/v1\n    project:"),), {"malformed"}),
        ((("project:", "endpoint: https://proxy.example/v1\n    project:"),), set[str]()),
        ((("project:", "endpoint: api.cloud.crusoe.ai\n    project:"),), {"malformed"}),
        ((("ubuntu22.04:latest", "ubuntu22.04"),), set[str]()),
        ((("ubuntu22.04:latest", "ubuntu22.04:"),), {"malformed"}),
        ((("10.100.0.0/20", "10.100.0.0/28"),), set[str]()),
        ((("10.100.0.0/20", "10.100.0.0/29"),), {"cloud-network"}),
        ((("10.100.0.0/20", "10.101.0.0/20"),), {"cloud-network"}),
        # One server needs no balancer, and `balancer` refuses one before it.
        ((("count: 3}", "count: 1}"),), {"balancer"}),
        ((("count: 3}", "count: 1}"), ("count: 1}\n      - {name: crusoe-k3s-worker",
          "count: 0}\n      - {name: crusoe-k3s-worker")), set[str]()),
        ((("count: 3}", "count: 4}"),), {"etcd-members"}),
        ((("count: 2}", "count: 0}"),), {"worker-count"}),
        ((("rate_gbit_s: 400", "rate_gbit_s: 400, expected_hcas: [mlx5_0]"),), {"cloud-hcas"}),
        ((("[203.0.113.0/24]\n  ssh", "[203.0.113.0/24, 0.0.0.0/0]\n  ssh"),),
         {"malformed"}),
        ((("h100-80gb-sxm-ib.8x, image", "c1a.8x, image"),),
         {"instance-image", "ib-partition", "cloud-hcas"}),
    ],
)  # fmt: skip
def test_rules(edits: tuple[tuple[str, str], ...], broken: set[str]) -> None:
    assert _errors(*edits) == broken


def test_the_keys_of_the_api_are_secrets_of_the_site() -> None:
    spec = _check().spec
    assert spec is not None
    named = {reference.secret for reference, _ in list_secrets(spec)}
    assert named >= {"crusoe_access_key", "crusoe_secret_key", "ssh_private_key", "k3s_token"}
