"""Methods of the field after RDumb and AETTA, on independent, correlated and recurring streams."""
