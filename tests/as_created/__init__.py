"""What `berth simulate` says will be, held to what a real API server, real controllers and Berth make of it."""
