//! A command's arguments read without the commands above it, for tests.

/// Arguments as the whole command line; the first word is the program's name.
#[derive(clap::Parser)]
pub(crate) struct ParseArgs<A: clap::Args> {
    #[command(flatten)]
    pub(crate) args: A,
}
