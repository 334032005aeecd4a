"""How answers are judged: by class, by span, by text, each with an interval."""
