"""NVIDIA's other Spectrum switches, generations 1 to 4: one entry each.

Ports, speeds and splits are those of the vendor's `platform.json` in sonic-net/sonic-buildimage;
docs/explanation/sources.md#switch-models names the folders. What no source states is left out.
"""

from __future__ import annotations

from typing import Final

from components.catalogue.switches.spectrum import Front, make_spectrum
from components.catalogue.switches.switch_model import SwitchModel

_OPEN: Final = ("cumulus", "sonic")
_ALL: Final = ("onyx", "cumulus", "sonic")
_100: Final = (10, 25, 40, 50, 100)
_200: Final = (1, 10, 25, 40, 50, 100, 200)
_400: Final = (10, 25, 40, 50, 100, 200, 400)
_800: Final = (10, 25, 40, 50, 100, 200, 400, 800)

SPECTRUM_MODELS: Final[tuple[SwitchModel, ...]] = (
    # 18 SFP28 ports of 25 Gbit/s come before four QSFP28.
    make_spectrum(
        "SN2010",
        Front("Spectrum", 22, _100, {2: 50, 4: 25}, None, _ALL, slow_ports=18, slow_gbit_s=25),
    ),
    make_spectrum("SN2100", Front("Spectrum", 16, _100, {2: 50, 4: 25}, None, _ALL)),
    # 48 SFP28 ports come before eight QSFP28, which split in two.
    make_spectrum(
        "SN2410", Front("Spectrum", 56, _100, {2: 50}, None, _ALL, slow_ports=48, slow_gbit_s=25)
    ),
    # 48 SFP28 ports come before twelve QSFP28.
    make_spectrum(
        "SN3420",
        Front(
            "Spectrum-2",
            60,
            (1, *_100),
            {2: 50, 4: 25},
            None,
            _OPEN,
            slow_ports=48,
            slow_gbit_s=25,
        ),
    ),
    make_spectrum("SN3700C", Front("Spectrum-2", 32, (1, *_100), {2: 50, 4: 25}, None, _OPEN)),
    make_spectrum("SN4600", Front("Spectrum-3", 64, _200, {2: 100}, None, _OPEN)),
    make_spectrum(
        "SN4700", Front("Spectrum-3", 32, (1, *_400), {2: 200, 4: 100}, None, _OPEN, lanes=8)
    ),
    # Two more ports of 25 Gbit/s are for management of the fabric; no rail fits there.
    make_spectrum("SN5400", Front("Spectrum-4", 64, _400, {2: 200, 4: 100}, None, _OPEN, lanes=8)),
    make_spectrum("SN5610", Front("Spectrum-4", 64, _800, {2: 400, 4: 200}, None, _OPEN, lanes=8)),
)
