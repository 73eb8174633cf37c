"""MLNX-OS on InfiniBand switches."""
