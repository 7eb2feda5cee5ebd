"""The live page of a cluster: its state, its problems, and buttons that break disks.

`model` makes what the page shows out of what was seen, `news` the events that people want to read,
`published` the changes that a browser lacks; these touch nothing. `watching` looks at the cluster
with the rehearsals' observer, and `live` publishes what it sees.
"""
