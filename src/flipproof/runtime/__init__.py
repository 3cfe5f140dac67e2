"""How the program runs: threads and seeds, processor kernels, progress, and files written whole."""
