"""The table of keys: everything that Railyard may set or look at on a Linux host, a row a key.

`row` says what a row has, `table` has the rows, and `ask` answers from them, and writes them as the
part of the host's tool that its scripts ask.
"""
