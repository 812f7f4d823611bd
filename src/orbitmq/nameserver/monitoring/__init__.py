"""What a NameServer tells of itself: alerts, metrics, health, and a comparison with a Java one."""
