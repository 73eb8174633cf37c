"""The tests; their tree mirrors the code."""
