"""Language models with limits, retries, recordings and costs; all use of DSPy's models is here.

Written for DSPy 3.4.1: `LM.__call__(messages=...)` returns texts, `LM.history` contains the usage, and
`dspy.utils.exceptions` defines the errors. No other module of this package calls a model directly.
"""
