"""NVIDIA (Mellanox) Onyx."""
