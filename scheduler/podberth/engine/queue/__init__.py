"""The queue: pods and pod groups wait in it until they are tried, and changes wake them."""
