"""Rules on whose parts these are: cards that are not known, and parts of other makers."""

from __future__ import annotations

from components.catalogue.cards import CARDS
from components.catalogue.other_vendors import (
    gpu_vendor,
    nic_vendor,
    prefix_vendor,
    software_vendor,
)
from components.checks.rule import Finding, Findings, at
from components.checks.topology import list_nics
from components.core.problem import Place
from components.model.cluster import ClusterSpec
from components.reading.wording import did_you_mean

_FACTS = {
    "pci_id": "its PCI id",
    "vf_pci_id": "the PCI id of its VFs",
    "vf_limit": "how many VFs it can have",
    "speed_gbit_s": "its fastest rate",
}


def check_nic_model(spec: ClusterSpec) -> Findings:
    """Each card is of a model that is known here or described in `nic_models`.

    Limits of VFs, rates and PCI ids are held against it. Of another model of NVIDIA they are not
    checked, which is a warning each time; its firmware and link type are left as they are.
    """
    for nic in list_nics(spec):
        model, where = nic.nic.model, nic.at("model")
        if nic.nic.card is not None or nic_vendor(model) is not None:
            continue  # of another maker's card `other-vendor` tells
        described = spec.nic_models.get(model)
        lacking = [words for key, words in _FACTS.items() if getattr(described, key, None) is None]
        known = "is only described by this file" if described else "is unknown"
        hint = "" if described else did_you_mean(model, list(CARDS))
        yield Finding(
            f"the card model {model} {known}.{hint} Not checked: "
            f"{', '.join([*lacking, 'its firmware and its link type'])}.",
            (where,),
            "read them in its manual and describe it in nic_models, or waive the rule with that "
            f"reason; known are {', '.join(CARDS)}.",
            "warning",
        )
    used = {nic.nic.model for nic in list_nics(spec)}
    for name in spec.nic_models:
        if name not in used:
            yield Finding(
                f"nic_models describes {name}, and no NIC is of that model.",
                (at(("nic_models", name)),),
                "correct the name, or remove the description.",
                "warning",
            )


def check_other_vendor(spec: ClusterSpec) -> Findings:
    """Cards and GPUs are NVIDIA's, and so is what is installed for them.

    Cards are set up by mlx5's tools and files, and GPUs by NVIDIA's operators: the parts of other
    makers would get values that mean nothing there.
    """
    for nic in list_nics(spec):
        yield from _refuse(
            nic_vendor(nic.nic.model),
            f"{nic.nic.model} is a card",
            nic.at("model"),
            "Railyard plans NVIDIA's ConnectX and BlueField",
        )
    for h, host in enumerate(spec.hosts):
        yield from _refuse(
            gpu_vendor(host.gpu_model or ""),
            f"{host.gpu_model} is a GPU",
            at(("hosts", h, "gpu_model"), host.gpu_model),
            "Railyard plans NVIDIA's driver, operator and NCCL",
        )
    yield from _software(spec)


def _software(spec: ClusterSpec) -> Findings:
    for name in ("gpu", "network", "gpu_device_plugin"):
        operator = getattr(spec.operators, name)
        if operator is not None:
            chart = operator.chart
            yield from _refuse(
                software_vendor(f"{chart.repo or ''}/{chart.chart}"),
                f"operators.{name} names a chart",
                at(("operators", name, "chart", "chart"), chart.chart),
                "Railyard gives it the values of NVIDIA's chart",
            )
    yield from _refuse(
        software_vendor(spec.jobs.image),
        f"{spec.jobs.image} is an image for GPUs",
        at(("jobs", "image"), spec.jobs.image),
        "Railyard runs NCCL's tests in it",
    )
    prefix = spec.pod_network.resource_prefix
    yield from _refuse(
        prefix_vendor(prefix),
        f"{prefix} is the prefix of a plugin",
        at(("pod_network", "resource_prefix"), prefix),
        "Railyard installs plugins for NVIDIA's cards",
    )


def _refuse(vendor: str | None, what: str, where: Place, why: str) -> Findings:
    if vendor is not None:
        yield Finding(
            f"{what} of {vendor}: {why}.",
            (where,),
            "leave these parts to another tool, or name NVIDIA's.",
        )
