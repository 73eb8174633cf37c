"""The few value types that all rooms share: errors, problems, settings, differences."""
