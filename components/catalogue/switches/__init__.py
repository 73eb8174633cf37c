"""The switch models that are known, in files by model or maker, and the registry of them."""

from __future__ import annotations

from components.catalogue.switches.arista_models import ARISTA_MODELS
from components.catalogue.switches.dcs_7060dx5_64s import DCS_7060DX5_64S
from components.catalogue.switches.qm8700 import QM8700
from components.catalogue.switches.qm9700 import QM9700
from components.catalogue.switches.sn2700 import SN2700
from components.catalogue.switches.sn3700 import SN3700
from components.catalogue.switches.sn4600c import SN4600C
from components.catalogue.switches.sn5600 import SN5600
from components.catalogue.switches.sonic_models import SONIC_MODELS
from components.catalogue.switches.spectrum_models import SPECTRUM_MODELS
from components.catalogue.switches.switch_model import SwitchModel
from components.catalogue.switches.z9332f import Z9332F

MODELS: dict[str, SwitchModel] = {
    model.name: model
    for model in (
        *(SN2700, SN3700, SN4600C, SN5600, *SPECTRUM_MODELS),
        *(DCS_7060DX5_64S, *ARISTA_MODELS),
        *(Z9332F, *SONIC_MODELS),
        *(QM8700, QM9700),
    )
}


def find_model(name: str) -> SwitchModel | None:
    """The model of that name, or None; spelling matters as on the front panel."""
    return MODELS.get(name)
