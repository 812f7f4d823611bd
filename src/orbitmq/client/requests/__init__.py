"""Request-reply: requests that wait for their replies, and replies on their way back."""
