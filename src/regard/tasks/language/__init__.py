"""Language models: what comes next, and texts continued."""
