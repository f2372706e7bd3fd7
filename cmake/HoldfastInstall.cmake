# Install rules follow with the installed-consumer test.
