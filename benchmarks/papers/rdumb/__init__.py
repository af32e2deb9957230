"""RDumb and CCC: Press et al. 2023, with the numbering of chapter 2 of Ori Press's thesis."""
