"""The broker: it takes messages in, keeps them, hands them out, and tells every NameServer of itself.

Rooms, in the order in which they may import one another:

    app                 the program: parts put together, started and stopped in order
    fast_path           small requests that come in masses, served without a command
    handlers            one module per family of requests, each with the tables that it uses
    service             the running broker's state
    sending             sends: where a message goes, how its properties are stored, when it is answered
    transactions        half messages, their ends, and the questions to producers that do not decide
    pop                 popped messages: checkpoints, acks, what comes again
    delivery            messages on their way out: long polls, filters, delays
    groups              settings, members, committed offsets, queue locks
    topics              the topic table, its file, the topics of the system
    registration        addresses, and what NameServers are told
    monitoring          counters and run-time values

Where more goes: timers (`timer`) lie in `delivery` next to `delay` and `long_poll`. SQL92 expressions are an engine below
the broker, `orbitmq.filter`; `delivery.filters` has the choice.
Queries by key and time extend `handlers.queries`; the index itself follows the log in the store's dispatch.
"""
