"""The administration client: requests of tools and of the lab to brokers, as typed values."""
