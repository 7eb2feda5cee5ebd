"""Commands of `jbodlab` for clusters of this machine.

`jbodlab/cli/commands.tsv` declares them. A module is imported when its command is carried out.
"""
