"""Whether plans come true: time and memory foretold, beside what runs and studies took."""
