"""An emulated InfiniBand switch with MLNX-OS."""
