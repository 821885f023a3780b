//! Real services on loopback ports: started, ready, asked, stopped, gone.

mod common;
mod kamailio;
mod own_services;
mod web_servers;
