"""Crusoe Cloud's REST API, as its Swagger file and clients describe it."""
