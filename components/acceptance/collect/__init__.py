"""Running the probes and collecting their evidence."""
