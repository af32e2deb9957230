"""The tables and figures of papers: experiments, their claims, verdicts and pages."""
