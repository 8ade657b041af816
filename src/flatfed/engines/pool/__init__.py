"""Workers of any kind: how pieces of work are spread over them, done again when one dies, and given up when late."""
