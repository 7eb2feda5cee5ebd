"""The HTTP API of a cluster of this machine, which breaks its disks.

Every request is declared at the method that carries it out, through the same code as the command
line: `operations` makes routes, checks of what is asked, and the OpenAPI document of method, path,
parameters and result. `app` is the server's side of HTTP.
"""
