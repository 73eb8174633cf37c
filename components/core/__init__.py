"""The few values that all rooms speak: errors, problems, settings, differences."""
