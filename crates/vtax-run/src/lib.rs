//! Runs a plan: trial order, repetition, journal, resume.
