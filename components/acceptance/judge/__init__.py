"""Evidence to verdicts: pure."""
