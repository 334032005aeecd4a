"""What all benchmarks share: turns that alternate, checks of answers, bounds of the machine, goals, and the page."""
