"""Vectors and layout, keyed randomness, messages, the algorithm contract and the round loop.

Nothing here touches the file system or starts a process.
"""
