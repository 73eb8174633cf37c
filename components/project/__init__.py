"""A user's own project: its files and its Pulumi engine. A real site must not use lab parts."""
