"""Values that must not change unless somebody means them to."""
