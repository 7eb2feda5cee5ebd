"""All replicas of this broker, the ISRs that they propose, and their metrics."""
