"""Every figure that is drawn, with Matplotlib: of the demonstration, plans and experiments."""
