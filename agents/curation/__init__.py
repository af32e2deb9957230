"""The data set's side: is an excerpt ambiguous, known by heart, solvable; what is it about?"""
