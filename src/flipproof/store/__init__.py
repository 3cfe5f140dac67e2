"""Files of certificates and models."""
