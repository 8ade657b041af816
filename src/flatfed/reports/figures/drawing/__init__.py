"""What figures share: style, scales, words and the placing of names."""
