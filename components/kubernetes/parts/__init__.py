"""What others installed in a cluster that is there: looked at, and taken or refused."""
