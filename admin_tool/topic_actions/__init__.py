"""The verbs of `jbodlab topics`."""
