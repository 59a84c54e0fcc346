"""Every answer is read here: what is asked, what is found, and what HAVING and SELECT make of it."""
