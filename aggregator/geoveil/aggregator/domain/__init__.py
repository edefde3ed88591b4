"""What the server does, apart from how it is asked and where it keeps things."""
