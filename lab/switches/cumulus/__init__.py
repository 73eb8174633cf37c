"""An emulated Cumulus Linux switch: bash over SSH, and NVUE."""
