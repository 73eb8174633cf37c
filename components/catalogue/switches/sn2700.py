"""NVIDIA (Mellanox) SN2700: the switch of the DeepOps RoCE guide."""

from __future__ import annotations

from components.catalogue.switches.spectrum import Front, make_spectrum

SN2700 = make_spectrum(
    "SN2700",
    Front(
        asic="Spectrum",
        ports=32,
        port_speeds_gbit_s=(10, 25, 40, 50, 56, 100),
        breakouts={2: 50, 4: 25},
        buffer_mb=16,
    ),
)
