"""Turn the checked file into the plan of an update, as plain values."""
