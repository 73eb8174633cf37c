"""What a step last applied, what its device shows now, and how the two differ."""
