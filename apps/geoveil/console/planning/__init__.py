"""Planning a survey: what somebody wishes, what a plan makes of it, and the campaign to sign."""
