"""A broker's topics: the table, its file and announcements, and the topics of the system."""
