"""Planning a survey: the form, the plan that it gives, and the campaign to sign."""
