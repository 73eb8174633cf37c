"""Show a reviewer the effects of a change to the file.

Pure: it turns two plans, or a plan and a recorded state, into a list of changes, and that into
text, Markdown and JSON. `components/fabric`, `components/hosts` and `components/disruption` decide
about interruptions; this room only repeats them.
"""
