"""Reports: from certificates to plain summaries, text and plots."""
