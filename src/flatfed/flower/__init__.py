"""The two apps that Flower runs: the server's, with flatfed's own loop, and the thin one at each node."""
