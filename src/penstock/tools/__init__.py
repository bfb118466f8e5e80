"""What the command line offers beyond single calls: the demo."""
