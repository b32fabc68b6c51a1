"""Models of ours as CTranslate2 opens them; it is only imported when something is written."""
