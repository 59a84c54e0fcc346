"""Do the tests notice small mistakes? One mistake at a time is put into a copy of `src/`, and the tests are asked."""
