"""CiteME (arXiv 2407.12861): tables 3 to 5 and 8, figures 5 to 18, from result files of `holdfast cite`."""
