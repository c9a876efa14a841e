"""Pages in a browser: the analyst's explorer, the curator's studio, and the loopback server that both use."""
