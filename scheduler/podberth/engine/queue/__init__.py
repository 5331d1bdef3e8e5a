"""Where pods and pod groups wait until they are tried, and what wakes them."""
