"""Compare the values that a step last applied with those on its device now."""
