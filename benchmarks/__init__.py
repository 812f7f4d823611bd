"""Side by side with the Java servers: same machine, same core, same load, ratios. See README.md."""
