"""Mutation testing of the pure rooms: would a test notice if this line were wrong?

`make mutants ROOM=judge` changes one thing at a time in a room's functions and runs the tests that
call the changed function. A change that no test notices is a survivor.
"""
