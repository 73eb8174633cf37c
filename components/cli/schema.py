"""`railyard schema`: the JSON schema of a site file, for editors and generators."""

from __future__ import annotations

import json

from components.cli.app import command_app, say
from components.reading.schema import publish_schema

app = command_app()


@app.command()
def schema() -> None:
    """Print the JSON schema of the site file."""
    say(json.dumps(publish_schema(), indent=2))
