//! The catalogue of services: configuration, start, readiness, stop.
