"""One slow reference per paper, written like its pseudo-code: read it beside the paper, and the fast one beside it.

A reference shares nothing with the package but the order of objects. Comments give the lines of the paper's listings.
Where the paper leaves something open, or its listing does not do what its text says, the reference says what was
decided. The tests beside it play the same random streams to both, and print the seed of what differs.
"""
