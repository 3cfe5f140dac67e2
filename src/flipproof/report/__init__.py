"""Reports: summaries of certificates as JSON, HTML, Markdown and text."""
