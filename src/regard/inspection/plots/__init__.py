"""Pictures for people: of attention, of measurements; the colours they share."""
