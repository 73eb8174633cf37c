"""Control planes: how each is installed, joined and reached."""
