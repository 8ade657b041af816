"""The contract of a method: what it sees of server and client, its state and its messages."""
