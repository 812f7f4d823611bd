"""Help for programs that drive Spark themselves: a local session, its Java, queries that are started again, interrupts."""
