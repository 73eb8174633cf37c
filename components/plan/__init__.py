"""From the checked file to everything that an update asks for, as plain values."""
