"""Whether plans of pretraining come true: time and memory foretold, beside what runs took."""
