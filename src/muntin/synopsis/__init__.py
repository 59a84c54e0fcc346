"""Where version 0.1.0 had `muntin.sketch`; gone in 0.4."""
