"""`railyard discover`: what is plugged into hosts, into the site file."""
