"""CiteAgent: an agent with a language model that searches, reads and selects, in DSPy."""
