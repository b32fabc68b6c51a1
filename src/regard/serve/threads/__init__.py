"""The threads of an engine: one begins and finishes requests, one may step beside it, one reads what is long."""
