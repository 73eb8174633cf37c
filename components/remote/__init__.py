"""Access to devices: steps as values, sessions, and the Pulumi resources that run them."""
