"""Safelight: a self-hosted image pipeline that never loses an image."""

__version__ = "0.8.0"
