"""POP's texts and documents: handles of popped messages, offsets in answers, the records of the revive topic, batches of acks."""
