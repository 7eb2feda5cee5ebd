"""The command line of the one program `jbodlab NOUN [VERB]`.

* `program`: how a command line becomes a call.
* `command`: reads `commands.tsv`, which declares all commands.
* `parser`: examples in the help, suggestions for misspelt words.
* `output`: text or JSON on stdout, notes, progress and questions on stderr.
* `choice`: which cluster a command is about.
"""
