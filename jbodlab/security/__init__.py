"""Who a client is: mechanisms, credentials and secrets; pure, without sockets and files."""
