"""From the text of a file to a spec, or to all of its problems with their lines."""
