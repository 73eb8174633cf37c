"""NVIDIA SN4600C: 64 ports of 100 Gbit/s, a leaf or a spine."""

from __future__ import annotations

from components.catalogue.switches.spectrum import Front, make_spectrum

SN4600C = make_spectrum(
    "SN4600C",
    Front(
        asic="Spectrum-3",
        ports=64,
        port_speeds_gbit_s=(1, 10, 25, 40, 50, 100),
        breakouts={2: 50},
        buffer_mb=64,
        # No public page was found that names it with Onyx; Cumulus names it from 5.0 on.
        systems=("cumulus", "sonic"),
        first_release={"cumulus": (5, 0, 0)},
    ),
)
