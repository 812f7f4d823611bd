"""`orbitmq mqadmin`: the subcommands of Java's mqadmin 5.3.3, with its options and its output."""
