"""Identity of a client: mechanisms, credentials and secrets; pure, without sockets and files."""
