"""A user's own project: its files, the engine that runs it, and what of the lab it refuses."""
