"""Request and reply between Java's clients and ours, over Java's broker and ours."""

from __future__ import annotations

from interop.peers import message


def test_java_replies_to_java_through_our_broker(java, ours, create_topic, name):
    """The broker's SEND_OK says that the Java client that asked has confirmed the reply."""
    create_topic(ours.name_servers, name)
    consumer = java.consumer(f"{name}-group", ours.name_servers, name)
    requester = java.producer(f"{name}-requesters", ours.name_servers)
    replier = java.producer(f"{name}-repliers", ours.name_servers)
    requester.request(message(name, b"how many?"))
    (request,) = consumer.wait_for_messages(1)
    result = replier.reply(request, b"forty-two")
    assert (result["status"], result["broker"]) == ("SEND_OK", request["broker"])
    for client in (consumer, requester, replier):
        client.stop()
