"""Reading of records by consumers and followers."""
