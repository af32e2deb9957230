"""Curating a data set: ambiguous excerpts, answers from memory, human answers, topics."""
