"""What has been measured in, what comes next out."""
