"""HTML pages of one file: figures as tables, plots drawn from them, no network.

`page` makes a page of sections, `plots` declares what is drawn of a table, `values` are the units
of columns. All pages share one template, one style sheet and one script.
"""
