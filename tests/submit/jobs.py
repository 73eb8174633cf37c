"""Jobs of the examples, as the command line asks for them."""

from __future__ import annotations

from typing import Any

from components.submit.make import Asked, Chosen, UserJob, choose, make_job
from tests.lab_physics.examples import example

IMAGE = "registry.example/train:1"


def asked_for(kind: Any, nodes: str = "gpu01,gpu02", **more: Any) -> Asked:  # noqa: ANN401 - as typed
    if kind in {"horovod", "pytorch"}:
        more.setdefault("image", IMAGE)
    if kind == "pytorch":
        more.setdefault("program", ("train.py", "--epochs", "3"))
    return Asked(kind=kind, nodes=tuple(nodes.split(",")), **more)


def chosen_of(asked: Asked, site: str = "dgx-roce") -> Chosen:
    chosen, troubles = choose(example(site), asked)
    assert troubles == ()
    assert chosen is not None
    return chosen


def job_of(asked: Asked, site: str = "dgx-roce") -> UserJob:
    return make_job(chosen_of(asked, site))
