"""Series: columns of numbers with dates, their scale, and windows of them."""
