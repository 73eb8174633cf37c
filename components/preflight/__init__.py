"""What a site lacks, looked at all at once before the first update: read-only."""
