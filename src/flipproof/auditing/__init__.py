"""One call from data to a judged result: `audit` for classes and for numbers, and several models in one table."""
