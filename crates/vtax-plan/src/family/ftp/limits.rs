//! What an FTP workload may ask for, in a plan or on the command line.

use std::ops::RangeInclusive;

use vtax_units::Bytes;

/// Files to be fetched: all are in one directory, whose LIST is read.
pub const FILES: RangeInclusive<u32> = 1..=100_000;
/// Length of a file.
pub const SIZE: RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 40);
/// Transfers of a session.
pub const TRANSFERS: RangeInclusive<u32> = 1..=1_000_000;
/// Weight of a kind of transfer.
pub const WEIGHT: RangeInclusive<u32> = 0..=10_000;
/// Cipher suites that the generator has, as IANA names them.
pub const CIPHERS: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];
/// Sessions at once: each has two connections and what TLS remembers of them.
pub const CLIENTS: RangeInclusive<u32> = 1..=20_000;
