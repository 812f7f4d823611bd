"""JSON bodies of requests and answers, one module per family: values to bytes and back."""
