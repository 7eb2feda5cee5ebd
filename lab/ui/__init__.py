"""The live page of a cluster: its state, its problems, and buttons that break disks.

`model` makes what the page shows out of what was seen, `news` the events that people want to read,
`published` what a browser still has to be told, `guards` who may ask for what; these touch nothing.
`watching` looks at the cluster with the rehearsals' observer, `server` speaks HTTP.
"""
