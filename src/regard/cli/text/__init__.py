"""What the commands show people: columns and sections as wide as the terminal."""
