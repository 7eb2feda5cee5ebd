"""APIs of transactions: producers, brokers and administrators ask their coordinators."""
