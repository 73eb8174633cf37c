"""`railyard job` without a cluster: YAML and nothing else, or all reasons why not."""

from __future__ import annotations

from typing import Any

import yaml

from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES


def bodies_of(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


SITE = str(EXAMPLES / "dgx-roce" / "site.yaml")


def test_a_manifest_is_printed_and_nothing_else(railyard: Call) -> None:
    done = railyard("job", "nccl", SITE, "--nodes", "gpu01, gpu02", "--name", "mine")
    assert (done.code, done.err) == (0, "")
    (body,) = bodies_of(done.out)
    assert (body["kind"], body["metadata"]["name"]) == ("MPIJob", "mine")


def test_a_program_stands_behind_two_dashes(railyard: Call) -> None:
    words = ("--nodes", "gpu02", "--image", "reg/train:1", "--", "train.py", "--nodes", "7")
    done = railyard("job", "pytorch", SITE, *words)
    assert done.code == 0
    job = bodies_of(done.out)[1]
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command == ["torchrun", "train.py", "--nodes", "7"]


def test_what_is_wrong_is_said_at_once_and_nothing_is_printed(railyard: Call) -> None:
    done = railyard("job", "horovod", SITE, "--nodes", "gpu1,mgmt01")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("  fix    ") == 3


def test_only_tcp_can_be_compared_with(railyard: Call) -> None:
    done = railyard("job", "nccl", SITE, "--nodes", "gpu01,gpu02", "--compare", "udp")
    assert done.code == 2
    assert "--compare udp is not known" in done.err
