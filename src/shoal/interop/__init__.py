"""Other people's libraries: their guarantees as curves of shoal, and shoal's as theirs.

Each module needs the library it is named after, and imports it when it is used.
"""
