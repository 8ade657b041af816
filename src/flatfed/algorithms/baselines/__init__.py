"""The methods that sharpness-aware ones are compared with."""
