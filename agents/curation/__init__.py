"""Curate a dataset: ambiguous excerpts, answers from memory, human answers, topics."""
