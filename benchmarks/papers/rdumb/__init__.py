"""RDumb and CCC: Press et al. 2023, and chapter 2 of Ori Press's thesis."""
