"""NVIDIA Onyx."""
