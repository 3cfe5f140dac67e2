"""The mathematics of votes: pure functions on arrays, with NumPy and SciPy alone. No estimator is known here."""
