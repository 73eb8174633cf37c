"""Find everything that a site lacks before the first update, without changing it."""
