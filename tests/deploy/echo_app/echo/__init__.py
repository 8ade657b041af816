"""Every site answers with its node configuration and the sum of the numbers that it was sent."""
