"""`railyard discover`, and what it knows of hosts."""
