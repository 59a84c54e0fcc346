"""The console: pages that show a service in a browser, and what they are made from."""
