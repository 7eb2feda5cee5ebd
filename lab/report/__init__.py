"""Reports of rehearsals, from `result.json` alone: an HTML page, JUnit's XML, lines of text."""
