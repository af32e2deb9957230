"""One stream on several devices: strategies and synchronised statistics."""
