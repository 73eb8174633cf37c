"""The Pulumi engine of the lab: found, installed or built, and the shell that uses it."""
