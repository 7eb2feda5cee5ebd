"""The atlas: every shipped plan on a list of engines, and the pages that the kept runs render."""
