"""Language models with limits, retries, recordings and costs; all use of DSPy's models is here.

Written against DSPy 3.4.1: `LM.__call__(messages=...)` returns texts, `LM.history` holds usage,
`dspy.utils.exceptions` names failures. Nothing else in this package calls a model directly.
"""
