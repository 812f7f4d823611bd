"""The broker: takes messages in, keeps them, hands them out, and tells every NameServer about itself."""
