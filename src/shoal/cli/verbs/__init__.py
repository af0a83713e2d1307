"""The verbs of the command line, one file each; the docstring of a verb is its help."""
