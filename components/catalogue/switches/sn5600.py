"""NVIDIA SN5600: 64 ports of 800 Gbit/s, a leaf or a spine for 400 Gbit/s cards."""

from __future__ import annotations

from components.catalogue.switches.spectrum import Front, make_spectrum

SN5600 = make_spectrum(
    "SN5600",
    Front(
        asic="Spectrum-4",
        # A 65th port of 25 Gbit/s, for management of the fabric, is left out: no rail fits there.
        ports=64,
        port_speeds_gbit_s=(10, 25, 40, 50, 100, 200, 400, 800),
        breakouts={2: 400, 4: 200},
        # Two public texts disagree, with 128 and 160 MB, so that nothing is said.
        buffer_mb=None,
        lanes=8,
        systems=("cumulus", "sonic"),
        first_release={"cumulus": (5, 6, 0)},
    ),
)
