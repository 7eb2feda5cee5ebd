"""Printing the content of a log's files; used by jbodlab storage dump."""
