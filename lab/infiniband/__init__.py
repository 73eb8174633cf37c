"""InfiniBand fabrics of the lab: ibsim plays the links, Debian's opensm manages them."""
