"""What structures cost, as measured, and the change to another where it pays."""
