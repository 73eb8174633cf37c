"""Railyard's rooms: the model, the checks, the plan, and one room per layer of the site."""
