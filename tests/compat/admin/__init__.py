"""The same random administrative commands to a Java 5.3.3 broker and to ours; every answer is compared."""
