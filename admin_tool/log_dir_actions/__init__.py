"""The verbs of `jbodlab dirs`."""
