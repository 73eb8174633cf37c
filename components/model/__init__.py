"""What the user writes: the typed site file. Nothing here computes or touches anything."""
