"""The source on computers where it is not installed: each way of docs/shipping.md, with real processes."""
