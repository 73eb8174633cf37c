"""What a change of the file would do, for a person who has to agree to it.

Pure: from two plans, or from a plan and the recorded state of a stack, to a list of changes, and
from that to text, Markdown and JSON. What a change interrupts is decided by `components/fabric`,
`components/hosts` and the room of the reboots, and only repeated here.
"""
