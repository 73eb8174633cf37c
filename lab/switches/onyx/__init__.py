"""The emulated Mellanox Onyx switch."""
