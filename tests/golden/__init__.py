"""Values that must not change unintentionally."""
