"""Rules across rooms: all of them run, report their findings and touch nothing."""
