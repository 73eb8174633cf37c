"""What exists: switch models, cards, drivers, operators, releases, instance types; all data."""
