"""The table of keys: everything that Railyard may set or read on a Linux host, a row a key.

`row` defines a row, `table` contains the rows, and `ask` answers from them. `ask` also renders them
as shell functions for the host's scripts.
"""
