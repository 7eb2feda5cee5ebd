"""Commands of `jbodlab` for clusters of this machine.

`cluster_nouns` and `fault_nouns` declare the commands: arguments, help, examples. Each names its
module here, which has the `run` and is imported when the command is carried out.
"""
