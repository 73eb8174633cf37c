"""The typed site file, as the user writes it. Nothing here computes or touches anything."""
