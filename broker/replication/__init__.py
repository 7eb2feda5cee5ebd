"""Replicas: leading, following, high watermark, ISR, and the requests that wait for them."""
