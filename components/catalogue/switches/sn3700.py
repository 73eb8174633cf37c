"""NVIDIA SN3700: 32 ports of 200 Gbit/s, a leaf for HDR-class cards."""

from __future__ import annotations

from components.catalogue.switches.spectrum import Front, make_spectrum

SN3700 = make_spectrum(
    "SN3700",
    Front(
        asic="Spectrum-2",
        ports=32,
        port_speeds_gbit_s=(1, 10, 25, 40, 50, 100, 200),
        breakouts={2: 100, 4: 50},
        buffer_mb=42,
    ),
)
