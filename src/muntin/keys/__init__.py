"""Values of columns as dense ids: what GROUP BY and joins count by."""
