"""Files of one replica: segments, indexes, epochs, producer state; blocking calls, no asyncio."""
