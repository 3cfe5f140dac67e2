"""The mathematics of votes: pure functions on arrays that need only NumPy and SciPy and know no estimator."""
