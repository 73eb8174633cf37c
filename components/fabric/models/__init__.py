"""One file a switch model, and the registry of them."""

from __future__ import annotations

from components.fabric.models.sn2700 import SN2700
from components.fabric.models.switch_model import SwitchModel
from components.fabric.models.z9332f import Z9332F

MODELS: dict[str, SwitchModel] = {model.name: model for model in (SN2700, Z9332F)}


def find_model(name: str) -> SwitchModel | None:
    """The model of that name, or None; spelling matters as on the front panel."""
    return MODELS.get(name)
