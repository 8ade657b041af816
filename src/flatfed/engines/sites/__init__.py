"""The server's side of a federation: the clients of its sites, reached over a transport."""
