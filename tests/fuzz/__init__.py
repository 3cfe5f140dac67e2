"""Random hard problems, and a judge who tries attacks on them and uses nothing but the public names."""
