//! Where an agent's stream is ssh's.

/// Options of ssh: no terminal, never a question, and an end where the other side is gone.
pub const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];
