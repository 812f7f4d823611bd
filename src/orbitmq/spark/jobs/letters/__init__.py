"""Dead letters and what a user's function makes of them."""
