"""Random hard problems, and a judge that attacks them through the public API only."""
