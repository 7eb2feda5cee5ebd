"""The HTTP API of a cluster of this machine, which breaks its disks.

`operations` declares every request: method, path, what it takes and gives. Routes, checks of what
is asked, and the OpenAPI document are made from these declarations. `actions` carries them out
through the same code as the command line; `app` is the server's side of HTTP.
"""
