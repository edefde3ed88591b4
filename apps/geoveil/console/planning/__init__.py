"""Planning a survey: the form, the resulting plan, and the campaign to sign."""
