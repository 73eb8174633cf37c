"""Plan an update: read the state and the devices, decide, refuse."""
