"""The server: streams, queries and tables over HTTP, durable in one folder."""
