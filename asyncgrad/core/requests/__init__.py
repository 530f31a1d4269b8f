"""What programs need that send requests to others: calls that become one request, and limits on requests."""
