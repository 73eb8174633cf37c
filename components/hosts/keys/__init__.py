"""The table of keys: everything that Railyard may set or read on a Linux host, a row a key.

`table.yaml` has the rows. `ask` describes them, answers from them, and renders them as shell
functions for the host's scripts.
"""
