"""Show a reviewer the effects of a change to the file; other rooms decide what interrupts. Pure."""
