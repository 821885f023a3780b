//! Testbeds: nodes, links, switches; deploy and destroy.
