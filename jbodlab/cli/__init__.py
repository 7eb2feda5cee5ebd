"""The command line of the one program `jbodlab NOUN [VERB]`.

* `program`: the table of nouns, and how a command line becomes a call.
* `command`: what a command declares; each noun's module has `COMMAND` or `VERBS`.
* `parser`: arguments, examples in the help, suggestions for misspelt words.
* `output`: text or JSON on stdout, notes, progress and questions on stderr.
* `choice`: which cluster a command is about.
"""
