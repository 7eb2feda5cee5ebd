"""Replicas: what one is, leading, high watermark, ISR, and the requests that wait for them."""
