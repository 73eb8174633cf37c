"""What the cluster holds now of what was applied to it: read, compared, and put back."""
