"""`railyard discover`: read the hardware of hosts into the site file."""
