"""What this run will do: own state, what was observed, decisions, refusals."""
