"""The APIs of consumer groups: Kafka's messages to what a coordinator is asked, and back."""
