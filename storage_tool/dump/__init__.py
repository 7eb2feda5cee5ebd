"""Printing what is in the files of a log; used by jbodlab storage dump."""
