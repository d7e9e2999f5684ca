"""Tiercel: a queue manager that speaks Microsoft Message Queuing natively on Linux."""
