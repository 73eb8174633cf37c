"""What things cost, as ratios to a peer in the same run; `python -m bench.switches`."""
