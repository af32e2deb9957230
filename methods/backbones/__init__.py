"""Networks by name: their source, structure, weights and normalisation."""
