"""A replica that leads: followers, ISR, high watermark."""
