"""Edits of a trained model that keep what they can of it, and say what they could not."""
