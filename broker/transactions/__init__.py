"""Transactions as pure decisions: what a transaction coordinator answers, keeps and writes."""
