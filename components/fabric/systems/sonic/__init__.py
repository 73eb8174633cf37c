"""Community SONiC."""
