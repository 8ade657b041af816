"""The doctor of a deployment: what is wrong with certificates, keys, clocks, versions, ports, disks and data."""
