"""The tables that a replay writes, as declarations: names, columns, meaning, order."""
