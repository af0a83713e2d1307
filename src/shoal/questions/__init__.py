"""The questions that people ask, one file each: parameters in, facts out, for the command line and the page alike.

A question is a function with keyword arguments that returns an `Answer`. The verbs of the command line call it and add
what is theirs: files, tables, pictures. `shoal web` reads its parameters from the text of an address.
"""
