"""Reading runs: tables, figures, reports."""
