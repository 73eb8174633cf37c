"""The commands of `railyard`, one module each."""
