"""The methods that seek flat minima."""
